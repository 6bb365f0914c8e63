"""Job scripts: what is said to each scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.planner import SITE, Planner
from tests.support.waiting import wait_until
from workflow.errors import RunError
from workflow.plan.plan_model import AllocationPlan
from workflow.run.processes.process_reaper import stat_fields
from workflow.schedulers.pbs import pbs_chunk
from workflow.schedulers.scheduler import JobOrder
from workflow.schedulers.slurm import slurm_directives, slurm_partition
from workflow.submit.job_scripts import check_path, job_name, make_order, own_script, submit_environment, submit_script
from workflow.submit.psij_jobs import PASS_ON, render_order, write_psij_script


def order(scheduler: str, **more: Any) -> JobOrder:
    given = {"scheduler": scheduler, "nodes": 4, "walltime_s": 5400, "grace_s": 60, "queue": "batch"} | more
    command = ("/usr/bin/python", "-m", "workflow.run.supervisor", "/runs/a-1")
    return JobOrder(
        AllocationPlan.model_validate(given), "shock-ab12cd", Path("/runs/a-1"), command, ("module load x",), 7,
        output=Path("/runs/a-1/supervisor.log"),
    )  # fmt: skip


def lines(text: str, mark: str) -> list[str]:
    return [line.removeprefix(mark).strip() for line in text.splitlines() if line.startswith(mark)]


def test_slurm() -> None:
    more = {"account": "phy", "reservation": "r1", "qos": "debug", "partition": "p1", "constraints": ["gpu", "nvme"]}
    text = render_order(order("slurm", **more, directives=["--exclusive", "--network=job_vni", "-C x"]))
    said = lines(text, "#SBATCH ")
    for option in (
        "--job-name=shock-ab12cd", "--no-requeue", "--no-kill", "--qos=debug", "--constraint=gpu&nvme",
        "--network=job_vni", "-C x",
        "--nodes=4", "--ntasks-per-node=1", "--time=1:30:0", '--partition="p1"', '--account="phy"',
        '--reservation="r1"', "--exclusive",
    ):  # fmt: skip
        assert said.count(option) == 1, option
    assert text.startswith("#!/bin/bash\n#SBATCH ")
    first_command = next(index for index, line in enumerate(text.splitlines()) if line.startswith("exec "))
    assert not any(line.startswith("#SBATCH") for line in text.splitlines()[first_command:]), (
        "sbatch stops reading there"
    )
    body = text.partition("module load x\n")[2].splitlines()
    assert body[0] == "cd /runs/a-1"
    assert body[1] == "trap : USR1"
    (start,) = (line for line in body if "single_launch.sh" in line)
    assert start.endswith("/usr/bin/python -m workflow.run.supervisor /runs/a-1 &")
    assert "#SBATCH -e /runs/a-1/psij/slurm/%j.err" in text
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_slurm_without_whole_nodes() -> None:
    assert "--cpus-per-task=7" in list(slurm_directives(order("slurm", exclusive=False)))
    assert "--no-kill" not in list(slurm_directives(order("slurm", nodes=1)))
    assert "#SBATCH --exclusive" not in render_order(order("slurm", exclusive=False))


def test_slurm_leaves_out_hosts_that_were_lost() -> None:
    without = ("n3", "n7")
    said = lines(render_order(replace(order("slurm"), without=without)), "#SBATCH ")
    assert "--exclude=n3,n7" in said
    assert not any("--exclude" in line for line in slurm_directives(order("slurm")))
    of_user = replace(order("slurm", directives=["--exclude=n1"]), without=without)
    assert [line for line in slurm_directives(of_user) if "exclude" in line] == ["--exclude=n1"]


def test_schedulers_count_hardware_threads(plan_of: Planner) -> None:
    site = SITE.model_copy(update={"scheduler": "slurm", "threads_per_core": 2})
    plan = plan_of(site=site)
    assert (
        make_order(plan, site, Path("/runs/a-1"), "a", ["run"]).cpus
        == 2 * make_order(plan, SITE, Path("/runs/a-1"), "a", ["run"]).cpus
    )


def test_the_partition_of_a_queue() -> None:
    assert slurm_partition(order("slurm").allocation) == "batch"
    assert slurm_partition(order("slurm", partition="p1", qos="debug").allocation) == "p1"
    assert slurm_partition(order("slurm", qos="debug").allocation) is None, "the queue is a QOS alone"


def test_pbs() -> None:
    text = render_order(order("pbs", account="phy", constraints=["system=polaris"], directives=["-l filesystems=home"]))
    said = lines(text, "#PBS ")
    for option in (
        "-V", "-N shock-ab12cd", "-r n", "-l filesystems=home", "-l select=4:system=polaris",
        "-l place=scatter:exclhost", "-l walltime=1:30:0", "-A phy", "-q batch",
    ):  # fmt: skip
        assert said.count(option) == 1, option
    assert sum(option.startswith("-l select=") for option in said) == 1
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_the_chunk_of_pbs_names_cores_where_nodes_are_shared() -> None:
    assert pbs_chunk(order("pbs", constraints=["ncpus=64", "ngpus=4"])) == "-l select=4:ncpus=64:ngpus=4"
    assert pbs_chunk(order("pbs", exclusive=False)) == "-l select=4:ncpus=7:mpiprocs=1"


def test_the_site_may_place_the_chunks_of_pbs() -> None:
    text = render_order(order("pbs", directives=["-l place=scatter"]))
    assert [line for line in lines(text, "#PBS ") if "place" in line] == ["-l place=scatter"]


def test_gpus_are_asked_for_where_stages_use_them() -> None:
    with_gpus = replace(order("slurm"), gpus=4)
    assert "--gpus-per-node=4" in list(slurm_directives(with_gpus))
    given = replace(order("slurm", directives=["--gres=gpu:4"]), gpus=4)
    assert list(slurm_directives(given))[-1] == "--gres=gpu:4"
    assert not any("gpus" in line for line in slurm_directives(given))


def test_lsf() -> None:
    said = lines(
        own_script(order("lsf", account="phy", constraints=["gpu"], directives=["-alloc_flags gpumps"])), "#BSUB "
    )
    assert said == [
        "-J shock-ab12cd", "-nnodes 4", "-W 90", "-rn", "-q batch", "-P phy", '-R "select[gpu]"', "-x",
        "-o /runs/a-1/supervisor.log", "-alloc_flags gpumps",
    ]  # fmt: skip


def test_flux() -> None:
    text = own_script(order("flux", account="phy", constraints=["gpu"]))
    assert lines(text, "# flux: ") == [
        "--job-name=shock-ab12cd", "--nodes=4", "--time-limit=5400s", "--exclusive", "--queue=batch", "--bank=phy",
        "--requires=gpu", "--output=/runs/a-1/supervisor.log",
    ]  # fmt: skip
    assert text.splitlines()[-1] == "exec /usr/bin/python -m workflow.run.supervisor /runs/a-1"


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("shock-diffraction-20261122-085805-b20a", "shock-diffraction-20261122-085805-b20a"),
        ("out", "out-ab12cd"),  # by `--run-dir`: may be that of another job, too
        ("a:b,c", "a_b_c-ab12cd"),
        ("7", "wf-7-ab12cd"),
    ],
)
def test_a_job_is_called_as_its_run(run: str, name: str) -> None:
    assert job_name(run, "ab12cd") == name


def test_names_of_jobs_fit_into_pbs() -> None:
    assert len(job_name("r" * 250, "ab12cd")) <= 230


@pytest.mark.parametrize("path", ["/runs/my run", "/runs/it's", "/runs/$HOME", "/runs/a;b", "/runs/ä"])
def test_run_directories_that_a_script_cannot_hold_are_refused(path: str) -> None:
    with pytest.raises(RunError, match="no blanks or special characters"):
        check_path(Path(path))


# Of a shell of `salloc`, inside of which a run is submitted, and of users who have defaults.
IN_A_JOB = {
    "PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_PER_TASK": "4", "SLURM_JOB_GPUS": "0",
    "SLURM_TASKS_PER_NODE": "1", "SLURMD_NODENAME": "n1", "SLURM_RESTART_COUNT": "1", "SLURM_CONF": "/etc/slurm.conf",
    "SLURM_CLUSTERS": "a", "SLURM_MPI_TYPE": "pmix", "FLUX_URI": "local:///x", "PBS_NODEFILE": "/x", "PBS_SERVER": "s",
    "LSB_JOBID": "3", "LSB_DEFAULTQUEUE": "q", "SBATCH_JOB_NAME": "other", "SBATCH_TIMELIMIT": "5", "SBATCH_WAIT": "1",
    "SBATCH_ACCOUNT": "mine", "SBATCH_PARTITION": "debug",
}  # fmt: skip
KEPT = {"PATH", "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_MPI_TYPE", "PBS_SERVER", "LSB_DEFAULTQUEUE"}


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "lsf"])
def test_a_job_inherits_nothing_of_the_job_that_it_is_submitted_from(scheduler: str) -> None:
    assert set(submit_environment(order(scheduler, account="phy"), IN_A_JOB)) == KEPT


def test_what_the_plan_leaves_open_is_the_users_default() -> None:
    left = set(submit_environment(order("slurm", queue=None), IN_A_JOB)) - KEPT
    assert left == {"SBATCH_ACCOUNT", "SBATCH_PARTITION"}


def test_a_job_of_flux_is_a_part_of_the_job_around_its_instance() -> None:
    assert submit_environment(order("flux"), IN_A_JOB) == IN_A_JOB


def test_the_submit_command_runs_without_the_variables_of_another_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, command = tmp_path / "seen", tmp_path / "bin/sbatch"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nenv > {seen}\necho Submitted batch job 12\n")
    command.chmod(0o755)
    for name, value in (IN_A_JOB | {"PATH": f"{command.parent}:{os.environ['PATH']}"}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "run").mkdir()
    asked = replace(order("slurm", account="phy"), run_dir=tmp_path / "run")
    assert submit_script(asked, write_psij_script(asked)).job == "12"
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert names & set(IN_A_JOB) == KEPT


@pytest.mark.parametrize("suspended", [False, True])
def test_the_script_waits_for_the_supervisor_whatever_interrupts_it(suspended: bool, tmp_path: Path) -> None:
    """A signal without meaning for the run, and the suspension of a job, end `wait`, and are not the end of the run."""
    program = f"echo $$; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 7"
    lines = ["trap : USR1", "asked=", "set -m", f"/bin/bash -c '{program}' &", *PASS_ON, 'exit "$code"']
    with subprocess.Popen(["/bin/bash", "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        supervisor = int(script.stdout.readline())
        try:
            if suspended:
                os.killpg(supervisor, signal.SIGSTOP)
                state = Path(f"/proc/{supervisor}/stat")
                wait_until(lambda: stat_fields(state.read_bytes())[0] == b"T", "the suspension")
            children = Path(f"/proc/{script.pid}/task/{script.pid}/children")

            def pauses() -> bool:
                if not suspended:
                    # More than once: the first one may come before the script waits, and is then without effect.
                    script.send_signal(signal.SIGUSR1)
                return len(children.read_text().split()) > 1

            wait_until(pauses, "the pause of the script before it waits again")
        finally:
            (tmp_path / "go").touch()
            os.killpg(supervisor, signal.SIGCONT)
        assert script.wait(60) == 7
