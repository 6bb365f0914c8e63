#!/bin/bash
#SBATCH --job-name=shock-diffraction-RUN
#SBATCH --no-requeue
#SBATCH --no-kill
#SBATCH --network=single_node_vni,job_vni
#SBATCH --exclusive
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=0:30:0
#SBATCH --account="abc123"
#SBATCH -e /RUN_DIR/psij/slurm/%j.err
#SBATCH -o /dev/null
#SBATCH --export=ALL

exec &>> "/RUN_DIR/psij/slurm/$SLURM_JOB_ID.out"
cd /RUN_DIR
trap : USR1
export WF_BASH_ENV="${BASH_ENV:-}"
export BASH_ENV=/RUN_DIR/psij/keep-shells.sh
asked=
trap 'asked=1' TERM
set -m
/bin/bash /RUN_DIR/psij/SUM/single_launch.sh JOB_ID '' '' '' /dev/null /dev/null /RUN_DIR/supervisor.log /bin/bash -c 'BASH_ENV=$WF_BASH_ENV exec "$0" "$@"' /env/bin/python /env/workflow/own_process.py workflow.api.run_process /RUN_DIR &
launch=$!
trap 'kill -TERM -- "-$launch" 2> /dev/null' TERM
[ -n "$asked" ] && kill -TERM -- "-$launch" 2> /dev/null
while wait "$launch"; code=$?; kill -0 "$launch" 2> /dev/null; do sleep 0.2; done
if [ "$code" -gt 128 ]; then wait "$launch" 2> /dev/null; again=$?; fi
case "${again:--1}" in -1 | 127) ;; *) code=$again ;; esac
echo "$code" > "/RUN_DIR/psij/slurm/$SLURM_JOB_ID.ec"
exit "$code"

######## the same of 512 nodes
#!/bin/bash
#SBATCH --job-name=large-RUN
#SBATCH --no-requeue
#SBATCH --no-kill
#SBATCH --gpus-per-node=8
#SBATCH --network=single_node_vni,job_vni
#SBATCH --exclusive
#SBATCH --nodes=512
#SBATCH --ntasks=512
#SBATCH --ntasks-per-node=1
#SBATCH --time=0:30:0
#SBATCH --account="abc123"
#SBATCH -e /RUN_DIR/psij/slurm/%j.err
#SBATCH -o /dev/null
#SBATCH --export=ALL

exec &>> "/RUN_DIR/psij/slurm/$SLURM_JOB_ID.out"
cd /RUN_DIR
trap : USR1
export WF_BASH_ENV="${BASH_ENV:-}"
export BASH_ENV=/RUN_DIR/psij/keep-shells.sh
asked=
trap 'asked=1' TERM
set -m
/bin/bash /RUN_DIR/psij/SUM/single_launch.sh JOB_ID '' '' '' /dev/null /dev/null /RUN_DIR/supervisor.log /bin/bash -c 'BASH_ENV=$WF_BASH_ENV exec "$0" "$@"' /env/bin/python /env/workflow/own_process.py workflow.api.run_process /RUN_DIR &
launch=$!
trap 'kill -TERM -- "-$launch" 2> /dev/null' TERM
[ -n "$asked" ] && kill -TERM -- "-$launch" 2> /dev/null
while wait "$launch"; code=$?; kill -0 "$launch" 2> /dev/null; do sleep 0.2; done
if [ "$code" -gt 128 ]; then wait "$launch" 2> /dev/null; again=$?; fi
case "${again:--1}" in -1 | 127) ;; *) code=$again ;; esac
echo "$code" > "/RUN_DIR/psij/slurm/$SLURM_JOB_ID.ec"
exit "$code"
