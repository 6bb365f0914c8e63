"""The allocation of a Slurm job, from variables and from output of scontrol as sbatch(1) and scontrol(1) have them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import datetime

import pytest

from workflow.errors import WfError
from workflow.launch.allocation import Host
from workflow.schedulers.job_questions import to_own_state
from workflow.schedulers.scheduler import QueryError, ThisNode, ask
from workflow.schedulers.slurm import slurm_allocation
from workflow.site.discover import discover_allocation, this_host

JOB = {
    "SLURM_JOB_ID": "1234",
    "SLURM_JOB_NODELIST": "frontier[00001-00002],frontier00010",
    "SLURM_JOB_CPUS_PER_NODE": "112(x2),56",
    "SLURM_MEM_PER_NODE": "512000",
    "SLURM_JOB_END_TIME": "1800000000",
    "SLURMD_NODENAME": "frontier00001",
}
SHOW_JOB = """JobId=1234 JobName=wrap
   RunTime=00:00:03 TimeLimit=01:00:00 TimeMin=N/A
   StartTime=2026-11-22T07:30:00 EndTime=2026-11-22T08:30:00 Deadline=N/A
"""


@pytest.fixture(autouse=True)
def _on_its_first_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "frontier00001.frontier.example.org")


def unasked(command: Sequence[str]) -> str:
    raise AssertionError(f"nothing is to be asked: {command}")


def test_hosts_cores_memory_and_end() -> None:
    found = discover_allocation(JOB, unasked)
    memory = 512000 * 2**20
    assert found.hosts == (
        Host("frontier00001", 112, memory), Host("frontier00002", 112, memory), Host("frontier00010", 56, memory),
    )  # fmt: skip
    assert (found.source, found.job, found.end_time, found.notes) == ("slurm", "1234", 1800000000.0, ())
    assert found.host_names == ("frontier00001", "frontier00002", "frontier00010")


@pytest.mark.parametrize(
    ("own", "own_cores", "threads"),
    [
        ("frontier00001", 56, True),
        ("frontier00001", 112, False),
        ("frontier00010", 112, True),
        ("frontier00010", 56, False),
        ("login1", 112, True),
    ],
)
def test_hardware_threads_are_counted_unless_this_node_tells_otherwise(own: str, own_cores: int, threads: bool) -> None:
    found = slurm_allocation({**JOB, "SLURMD_NODENAME": own}, unasked, ThisNode(this_host, lambda: own_cores))
    assert found.counts_threads is threads


def test_memory_per_cpu() -> None:
    job = {**JOB, "SLURM_MEM_PER_CPU": "2000", "SLURM_MEM_PER_NODE": ""}
    assert [host.memory for host in discover_allocation(job, unasked).hosts] == [
        2000 * 2**20 * cores for cores in (112, 112, 56)
    ]
    assert discover_allocation({**JOB, "SLURM_MEM_PER_NODE": "0"}, unasked).hosts[0].memory is None


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({"SLURM_GPUS_PER_NODE": "4"}, [4, 4, 4]),
        ({"SLURM_GPUS_PER_NODE": "a100:2,h100:1"}, [3, 3, 3]),
        ({"SLURM_GPUS_ON_NODE": "8"}, [8, None, None]),
        ({"SLURM_JOB_GPUS": "0,2-4"}, [4, None, None]),
        ({"SLURM_JOB_GPUS": "0,2", "SLURMD_NODENAME": "frontier00010"}, [None, None, 2]),
    ],
)
def test_gpus(variables: dict[str, str], gpus: list[int | None]) -> None:
    assert [host.gpus for host in discover_allocation({**JOB, **variables}, unasked).hosts] == gpus


def test_the_end_is_asked_where_the_environment_lacks_it() -> None:
    asked = []

    def answer(command: Sequence[str]) -> str:
        asked.append(list(command))
        return SHOW_JOB

    found = discover_allocation({**JOB, "SLURM_JOB_END_TIME": ""}, answer)
    assert asked == [["scontrol", "show", "job", "1234"]]
    assert found.end_time == datetime(2026, 11, 22, 8, 30).timestamp()
    unlimited = SHOW_JOB.replace("EndTime=2026-11-22T08:30:00", "EndTime=Unknown")
    assert discover_allocation({**JOB, "SLURM_JOB_END_TIME": ""}, lambda _: unlimited).end_time is None


def silent(_: Sequence[str]) -> str:
    raise QueryError("scontrol gave no answer within 5 s")


@pytest.mark.parametrize(
    ("variables", "note"),
    [
        ({"SLURM_JOB_CPUS_PER_NODE": "112(x2)"}, 'SLURM_JOB_CPUS_PER_NODE is "112(x2)" for 3 nodes'),
        ({"SLURM_JOB_CPUS_PER_NODE": "many"}, 'SLURM_JOB_CPUS_PER_NODE is "many" for 3 nodes'),
        ({"SLURM_JOB_CPUS_PER_NODE": "1(x99999999999)"}, "the cores per node are not known"),
        ({"SLURM_MEM_PER_NODE": "2G"}, 'SLURM_MEM_PER_NODE is "2G"'),
        ({"SLURM_GPUS_PER_NODE": "a100"}, 'SLURM_GPUS_PER_NODE is "a100"'),
        ({"SLURM_HET_SIZE": "2"}, "the job is heterogeneous: only the nodes of its first part are used"),
        ({"SLURM_JOB_GPUS": "GPU-3f"}, 'SLURM_JOB_GPUS is "GPU-3f"'),
        ({"SLURM_JOB_END_TIME": ""}, "the end of the job is not known: scontrol gave no answer within 5 s"),
    ],
)
def test_what_is_not_understood_is_unknown_and_said(variables: dict[str, str], note: str) -> None:
    found = discover_allocation({**JOB, **variables}, silent)
    assert len(found.hosts) == 3
    assert [text for text in found.notes if note in text], found.notes
    assert len(found.notes) == 1


def test_an_answer_that_is_not_understood() -> None:
    found = discover_allocation({**JOB, "SLURM_JOB_END_TIME": ""}, lambda _: "JobId=1234 EndTime=tomorrow\n")
    assert found.end_time is None
    assert found.notes == ('the end of the job is not known: scontrol says "EndTime=tomorrow"',)


@pytest.mark.parametrize("nodes", [None, "n[1-"])
def test_a_job_without_its_hosts_is_refused(nodes: str | None) -> None:
    job = {name: value for name, value in JOB.items() if name != "SLURM_JOB_NODELIST"}
    with pytest.raises(WfError, match="SLURM_JOB_NODELIST"):
        discover_allocation(job if nodes is None else {**job, "SLURM_JOB_NODELIST": nodes}, unasked)


def test_without_a_scheduler_it_is_this_machine() -> None:
    found = discover_allocation({}, unasked)
    (here,) = found.hosts
    assert (found.source, found.job, found.end_time, found.host_names) == ("local", "", None, ())
    assert (here.name, here.cores) == (platform.node(), len(os.sched_getaffinity(0)))


def test_a_command_is_asked_with_a_deadline() -> None:
    assert ask([sys.executable, "-c", "print(7)"]) == "7\n"
    with pytest.raises(QueryError, match="no-such-command: No such file or directory"):
        ask(["no-such-command"])
    with pytest.raises(QueryError, match=r"failed with exit code 3: it is down"):
        ask([sys.executable, "-c", "import sys; print('it is down', file=sys.stderr); sys.exit(3)"])
    with pytest.raises(QueryError, match=r"gave no answer within 0\.2 s"):
        ask([sys.executable, "-c", "import time; time.sleep(60)"], deadline_s=0.2)


TASKS = """JobId=1235 ArrayJobId=1234 ArrayTaskId=0 JobName=sweep
   JobState=COMPLETED Reason=None StartTime=2026-11-28T01:00:00 EndTime=2026-11-28T02:00:00

JobId=1234 ArrayJobId=1234 ArrayTaskId=1 JobName=sweep
   JobState=RUNNING Reason=None StartTime=2026-11-28T06:00:00 EndTime=2026-11-28T18:00:00

JobId=1236 ArrayJobId=1234 ArrayTaskId=2-9 JobName=sweep
   JobState=PENDING Reason=Resources StartTime=Unknown EndTime=Unknown
"""


def test_of_several_records_that_of_this_job_counts() -> None:
    """As `scontrol show job` prints them for the last task of an array, and for parts of a heterogeneous job."""
    job = {**JOB, "SLURM_JOB_END_TIME": ""}
    assert discover_allocation(job, lambda _: TASKS).end_time == datetime(2026, 11, 28, 18).timestamp()
    assert to_own_state("slurm", "1234", TASKS) == ("RUNNING", "JobState=RUNNING Reason=None")
    assert to_own_state("slurm", "1236", TASKS).state == "PENDING, Resources"
    other = discover_allocation({**job, "SLURM_JOB_ID": "1299"}, lambda _: TASKS)
    assert "the end of the job is not known: scontrol says" in other.notes[0], "a record of another job is no answer"
