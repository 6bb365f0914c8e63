#!/bin/bash
#PBS -N shock-diffraction-RUN
#PBS -r n
#PBS -l select=2
#PBS -l place=scatter
#PBS -l filesystems=home:flare
#PBS -V
#PBS -l walltime=0:30:0
#PBS -A abc123
#PBS -e /dev/null
#PBS -o /dev/null

exec &>> "/RUN_DIR/psij/pbs/$PBS_JOBID.out"
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
echo "$code" > "/RUN_DIR/psij/pbs/$PBS_JOBID.ec"
exit "$code"

######## the same of 512 nodes
#!/bin/bash
#PBS -N large-RUN
#PBS -r n
#PBS -l select=512
#PBS -l place=scatter
#PBS -l filesystems=home:flare
#PBS -V
#PBS -l walltime=0:30:0
#PBS -A abc123
#PBS -e /dev/null
#PBS -o /dev/null

exec &>> "/RUN_DIR/psij/pbs/$PBS_JOBID.out"
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
echo "$code" > "/RUN_DIR/psij/pbs/$PBS_JOBID.ec"
exit "$code"
