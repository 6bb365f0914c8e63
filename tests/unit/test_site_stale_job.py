"""Variables of a job that is over, or of other nodes: a shell keeps them, and no run may believe them."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

from workflow.errors import WfError
from workflow.schedulers.scheduler import QueryError
from workflow.site.discover import discover_allocation

OWN = platform.node()
RESOURCES = {"execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["n001"]}}
# Of each scheduler: what it says of a job that it does not know, that runs, and that has ended.
WORDS = {
    "slurm": ("Invalid job id specified", "99|RUNNING|None\n", "99|COMPLETED|None\n"),
    "pbs": (
        "qstat: Unknown Job Id 99.pbs",
        "Job Id: 99.pbs\n    job_state = R\n",
        "Job Id: 99.pbs\n    job_state = F\n",
    ),
    "lsf": ("Job <99> is not found", "99|RUN|-|-\n", "99|DONE|-|-\n"),
    "flux": ("flux-jobs: ERROR: unknown job id", "ƒA|RUN||\n", "ƒA|COMPLETED|0|\n"),
}
VARIABLES = {"slurm": "SLURM_JOB_ID", "pbs": "PBS_JOBID", "lsf": "LSB_JOBID", "flux": "FLUX_JOB_ID"}
TITLES = {"slurm": "Slurm", "pbs": "PBS", "lsf": "LSF", "flux": "Flux"}


def environment(scheduler: str, host: str, folder: Path) -> dict[str, str]:
    """What a job on one node sets."""
    (folder / "nodes").write_text(f"{host}\n")
    return {
        "slurm": {
            "SLURM_JOB_ID": "99", "SLURM_JOB_NODELIST": host, "SLURM_JOB_CPUS_PER_NODE": "4", "SLURMD_NODENAME": host,
        },
        "pbs": {"PBS_JOBID": "99.pbs", "PBS_NODEFILE": str(folder / "nodes")},
        "lsf": {"LSB_JOBID": "99", "LSB_MCPU_HOSTS": f"{host} 4"},
        "flux": {"FLUX_JOB_ID": "ƒA"},
    }[scheduler]  # fmt: skip


class Says:
    """A scheduler that gives one answer for a job; None: it gives none."""

    def __init__(self, host: str, answer: str | None, *, absent: bool = False) -> None:
        self.host, self.answer, self.absent = host, answer, absent
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> str:
        self.asked.append(command)
        resources = {"execution": {**RESOURCES["execution"], "nodelist": [self.host]}}
        if command[:3] == ["flux", "job", "info"]:
            return json.dumps(resources)  # also of a job that has ended
        if self.answer is None or command[0] == "sacct":
            raise QueryError(f"{command[0]} gave no answer within 5 s")
        if self.absent:
            raise QueryError(f"{command[0]} failed with exit code 1: {self.answer}")
        if command[:3] == ["flux", "job", "timeleft"]:
            return "3600"
        return self.answer


@pytest.mark.parametrize("scheduler", WORDS)
def test_a_job_that_the_scheduler_does_not_know_is_refused(scheduler: str, tmp_path: Path) -> None:
    for host in ("n001", OWN):  # a shell that was left on a node of the job, too
        says = Says(host, WORDS[scheduler][0], absent=True)
        with pytest.raises(WfError) as caught:
            discover_allocation(environment(scheduler, host, tmp_path), says)
        variable, job = VARIABLES[scheduler], environment(scheduler, host, tmp_path)[VARIABLES[scheduler]]
        assert caught.value.message == f"{variable}={job} is set, but {TITLES[scheduler]} does not know this job"
        assert caught.value.hint == f"start a new shell, or `unset {variable}`"


@pytest.mark.parametrize("scheduler", WORDS)
def test_a_job_of_other_nodes_is_believed_where_the_scheduler_says_that_it_runs(scheduler: str, tmp_path: Path) -> None:
    """A shell of salloc on a login node; the script of a job on a node that takes no stage."""
    found = discover_allocation(environment(scheduler, "n001", tmp_path), Says("n001", WORDS[scheduler][1]))
    assert [host.name for host in found.hosts] == ["n001"]
    with pytest.raises(WfError, match="is set, but this job has ended: "):
        discover_allocation(environment(scheduler, "n001", tmp_path), Says("n001", WORDS[scheduler][2]))


@pytest.mark.parametrize("scheduler", WORDS)
def test_without_an_answer_the_list_of_hosts_decides(scheduler: str, tmp_path: Path) -> None:
    """As in a container without the commands. Names may differ in their domain."""
    with pytest.raises(WfError, match=f"this machine, {OWN}, is none of its nodes .n001., and .* gives no answer"):
        discover_allocation(environment(scheduler, "n001", tmp_path), Says("n001", None))
    here = f"{OWN}.lab.example.org"
    found = discover_allocation(environment(scheduler, here, tmp_path), Says(here, None))
    assert [host.name for host in found.hosts] == [here]


def test_a_state_that_is_not_known_is_no_end(tmp_path: Path) -> None:
    assert discover_allocation(environment("slurm", "n001", tmp_path), Says("n001", "99|XX|None\n")).job == "99"


def test_a_job_that_has_finished_is_none_for_pbs(tmp_path: Path) -> None:
    """Without -x qstat fails for it; its nodes still have a shell."""
    said = "qstat: 99.pbs Job has finished, use -x or -H to obtain historical job information"
    with pytest.raises(WfError, match="PBS does not know this job"):
        discover_allocation(environment("pbs", OWN, tmp_path), Says(OWN, said, absent=True))


def test_an_element_of_an_lsf_array_asks_for_itself(tmp_path: Path) -> None:
    says = Says("n001", "99|RUN|-|-\n")
    found = discover_allocation({**environment("lsf", "n001", tmp_path), "LSB_JOBINDEX": "3"}, says)
    assert found.job == "99[3]"
    assert [command[-1] for command in says.asked] == ["99[3]", "99[3]"]
