"""Allocations of PBS, LSF and Flux jobs, and of a host file, from texts as their documentation has them."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.schedulers.pbs import qstat_attributes
from workflow.schedulers.scheduler import QueryError
from workflow.site.discover import discover_allocation, this_host

# qstat(1B) of PBS Pro; ALCF's job-info examples have these dates and this exec_vnode.
QSTAT = """Job Id: 127750.aurora-pbs-0001
    Job_Name = all2all
    job_state = R
    exec_vnode = (x4305c2s6b0n0:ncpus=1)+(x4305c2s7b0n0:ncpus=1)+(x4305c4s0b0n0
\t:ncpus=1)+(x4305c4s1b0n0:ncpus=1)
    Resource_List.walltime = 01:30:00
    stime = Fri Nov 11 07:52:12 2022
    Variable_List = PBS_O_HOME=/home/harms,PBS_O_LANG=C,
\tPBS_O_QUEUE=workq
"""
# flux-core:t/flux-resource/list/fluke.R, shortened, with GPUs
RESOURCES = {
    "version": 1,
    "execution": {
        "R_lite": [
            {"rank": "0-1", "children": {"core": "0-3", "gpu": "0-1"}},
            {"rank": "5", "children": {"core": "2"}}],
        "starttime": 0.0, "expiration": 0.0, "nodelist": ["fluke[3-4]", "fluke103"],
    },
}  # fmt: skip
Found = Callable[..., Allocation]


# What they say of the job itself, which a machine asks that is none of its hosts.
RUNS = {"qstat": "Job Id: 127750.aurora-pbs-0001\n    job_state = R\n", "bjobs": "77|RUN|-|-\n"}


def answers(**by_command: str) -> Callable[[Sequence[str]], str]:
    """A scheduler whose commands print these texts, and know the job; those that have none fail."""

    def query(command: Sequence[str]) -> str:
        if command[1] in ("-x", "-a"):
            return RUNS[command[0]]
        if command[0] not in by_command:
            raise QueryError(f"{command[0]}: No such file or directory")
        return by_command[command[0]]

    return query


def pbs(folder: Path, lines: str, **more: str) -> Mapping[str, str]:
    (folder / "nodefile").write_text(lines)
    return {"PBS_JOBID": "127750.aurora", "PBS_NODEFILE": str(folder / "nodefile"), **more}


def test_pbs_pro(tmp_path: Path) -> None:
    here = platform.node()
    found = discover_allocation(pbs(tmp_path, f"{here}.lab.example.org\nx4305c2s7b0n0\n"), answers(qstat=QSTAT))
    own = this_host()
    assert found.hosts == (Host(f"{here}.lab.example.org", own.cores, own.memory), Host("x4305c2s7b0n0"))
    assert (found.source, found.job, found.notes) == ("pbs", "127750.aurora", ())
    assert found.end_time == datetime(2022, 11, 11, 7, 52, 12).timestamp() + 5400


def test_pbs_pro_lists_a_host_once_for_each_process(tmp_path: Path) -> None:
    found = discover_allocation(pbs(tmp_path, "a\na\nb\na\n"), answers(qstat=QSTAT))
    assert found.hosts == (Host("a"), Host("b"))


def test_torque_lists_a_host_once_for_each_core(tmp_path: Path) -> None:
    found = discover_allocation(pbs(tmp_path, "a\na\nb\nb\n", PBS_NUM_PPN="2"), answers(qstat=QSTAT))
    assert found.hosts == (Host("a", 2), Host("b", 2))


def test_qstat_wraps_long_values() -> None:
    said = qstat_attributes(QSTAT)
    assert said["exec_vnode"].endswith("(x4305c4s0b0n0:ncpus=1)+(x4305c4s1b0n0:ncpus=1)")
    assert said["Variable_List"] == "PBS_O_HOME=/home/harms,PBS_O_LANG=C,PBS_O_QUEUE=workq"


@pytest.mark.parametrize(
    ("qstat", "note"),
    [
        (None, "the end of the job is not known: qstat: No such file or directory"),
        (QSTAT.replace("01:30:00", "soon"), 'qstat says it began "Fri Nov 11 07:52:12 2022" and may run "soon"'),
        (QSTAT.replace("stime", "time"), 'qstat says it began "" and may run "01:30:00"'),
    ],
)
def test_the_end_of_a_pbs_job_may_be_unknown(tmp_path: Path, qstat: str | None, note: str) -> None:
    found = discover_allocation(pbs(tmp_path, "a\n"), answers(**({"qstat": qstat} if qstat else {})))
    assert found.end_time is None
    assert note in found.notes[0]


def test_a_pbs_job_without_a_walltime(tmp_path: Path) -> None:
    text = QSTAT.replace("    Resource_List.walltime = 01:30:00\n", "")
    found = discover_allocation(pbs(tmp_path, "a\n"), answers(qstat=text))
    assert (found.end_time, found.notes) == (None, ())


def test_lsf() -> None:
    before = time.time()
    found = discover_allocation({"LSB_JOBID": "77", "LSB_MCPU_HOSTS": "hostA 4 hostB 2"}, answers(bjobs="1:20 L\n"))
    assert found.hosts == (Host("hostA", 4), Host("hostB", 2))
    assert (found.source, found.job, found.notes) == ("lsf", "77", ())
    assert found.end_time is not None
    assert before + 4800 <= found.end_time <= time.time() + 4800


@pytest.mark.parametrize("said", ["-", "0:10 E", "2:00 X"])
def test_an_estimate_ends_no_lsf_job(said: str) -> None:
    found = discover_allocation({"LSB_JOBID": "77", "LSB_MCPU_HOSTS": "hostA 4"}, answers(bjobs=said))
    assert (found.end_time, found.notes) == (None, ())


def test_the_launch_node_of_jsrun_takes_no_stage(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("batch2\n" + "a01n01\n" * 42 + "a01n02\n" * 42)
    job = {"LSB_JOBID": "77", "LSB_DJOB_HOSTFILE": str(tmp_path / "hosts")}
    found = discover_allocation(job, answers(bjobs="1:20 L"))
    assert found.hosts == (Host("a01n01", 42), Host("a01n02", 42))
    assert found.notes == ("batch2 has one slot and comes first: taken as the launch node, where no stage can run",)


def test_an_lsf_job_of_one_slot_a_host() -> None:
    found = discover_allocation({"LSB_JOBID": "77", "LSB_MCPU_HOSTS": "a 1 b 1"}, answers(bjobs="later"))
    assert found.hosts == (Host("a", 1), Host("b", 1))
    assert found.notes == ('the end of the job is not known: bjobs says that "later" is left',)


def flux(resources: object = RESOURCES, left: str = "3600\n") -> Callable[[Sequence[str]], str]:
    asked = {"resource": json.dumps(resources), "info": json.dumps(resources), "timeleft": left}
    asked["jobs"] = "ƒD2e73NP|RUN||\n"
    return lambda command: next(text for word, text in asked.items() if word in command)


@pytest.mark.parametrize(
    ("variables", "job"), [({"FLUX_JOB_ID": "ƒD2e73NP"}, "ƒD2e73NP"), ({"FLUX_ENCLOSING_ID": "ƒDCB6RV"}, "ƒDCB6RV")]
)
def test_flux(variables: dict[str, str], job: str) -> None:
    before = time.time()
    inside_slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-9]"}
    found = discover_allocation({"FLUX_URI": "local:///x", **inside_slurm, **variables}, flux())
    assert found.hosts == (Host("fluke3", 4, gpus=2), Host("fluke4", 4, gpus=2), Host("fluke103", 1, gpus=0))
    assert (found.source, found.job, found.notes) == ("flux", job, ())
    assert found.end_time is not None
    assert before + 3600 <= found.end_time <= time.time() + 3600


def test_a_flux_job_without_a_limit() -> None:
    assert discover_allocation({"FLUX_URI": "local:///x"}, flux(left="4294967295")).end_time is None
    assert "soon" in discover_allocation({"FLUX_URI": "local:///x"}, flux(left="soon")).notes[0]


@pytest.mark.parametrize(
    "resources",
    [
        {}, [], {"execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}]}},
        {"execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0"}}], "nodelist": ["n[1-2]"]}},
        {"execution": {"R_lite": [{"rank": "0", "children": {"core": "all"}}], "nodelist": ["n1"]}},
    ],
)  # fmt: skip
def test_a_resource_set_that_is_not_understood(resources: object) -> None:
    with pytest.raises(WfError, match="Flux's resource set is not understood"):
        discover_allocation({"FLUX_URI": "local:///x"}, flux(resources))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"PBS_JOBID": "1"}, "PBS_JOBID is set, but not PBS_NODEFILE"),
        ({"PBS_JOBID": "1", "PBS_NODEFILE": "/no/such/file"}, "PBS_NODEFILE=/no/such/file: No such file or directory"),
        ({"PBS_JOBID": "1", "PBS_NODEFILE": "/dev/null"}, "PBS_NODEFILE=/dev/null: there is no host in it"),
        ({"LSB_JOBID": "1"}, "LSB_JOBID is set, but neither LSB_MCPU_HOSTS nor LSB_DJOB_HOSTFILE"),
        ({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a b"}, 'LSF\'s LSB_MCPU_HOSTS is "a b"'),
        ({"LSB_JOBID": "1", "LSB_DJOB_HOSTFILE": "/dev/null"}, "there is no host in it"),
        ({"FLUX_URI": "local:///x"}, "the hosts of this Flux job are not known: flux: No such file"),
        ({"WF_HOSTFILE": "/no/such/file"}, "WF_HOSTFILE=/no/such/file: No such file or directory"),
        ({"WF_HOSTFILE": "/dev/null"}, "there is no host in it"),
    ],
)
def test_a_job_without_its_hosts_is_refused(job: dict[str, str], message: str) -> None:
    with pytest.raises(WfError) as caught:
        discover_allocation(job, answers())
    assert message in caught.value.message
    assert caught.value.hint


def test_a_host_file_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# my machines\nn1 slots=4 max_slots=8\n n2:2  # two\nn3\n\nn2:1\nn4\nn4\n")
    found = discover_allocation({"WF_HOSTFILE": str(path), "SLURM_JOB_ID": "1"}, answers())
    assert found == Allocation("hostfile", "", (Host("n1", 4), Host("n2", 3), Host("n3"), Host("n4", 2)), end_time=None)


def test_a_line_that_is_no_host_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("n1\n  n2, n3\nn4 slots=many\n")
    with pytest.raises(WfError) as caught:
        discover_allocation({"WF_HOSTFILE": str(path)}, answers())
    assert [(each.line, each.column, each.message) for each in caught.value.problems] == [
        (2, 3, 'expected a host, got "n2, n3"'), (3, 1, 'expected a host, got "n4 slots=many"'),
    ]  # fmt: skip
