"""Two runs in one batch job: the second gets the nodes that the first leaves free, or starts nothing."""

from __future__ import annotations

import json
import multiprocessing
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage
from workflow.launch.allocation import Allocation, Host
from workflow.plan.allocation_check import allocation_problems
from workflow.plan.plan_model import Plan
from workflow.run.control.lease import Heartbeat
from workflow.run.run_allocation import claimed_nodes, free_part

JOB = Allocation("slurm", "12", tuple(Host(f"n{number}") for number in (1, 2, 3, 4)))
OWN = "login"


def plan_of(nodes: int, launcher: str = "mpiexec") -> Plan:
    place = {"nodes": [(0, nodes)], "ranks_per_node": 1, "cores": [], "cores_per_rank": 0}
    return make_plan([make_stage("sim", ["sim"], launch={"launcher": launcher}, ranks=nodes, placement=place)])


def names(allocation: Allocation) -> list[str]:
    return [host.name for host in allocation.hosts]


def test_the_hosts_of_another_run_are_left_to_it() -> None:
    free = free_part(plan_of(2), JOB, {"n1": "/a", "n3": "/a", "n9": "/b"}, OWN)
    assert names(free) == ["n2", "n4"]
    assert free.notes == ("Slurm job 12 has 4 nodes: run /a uses n1, n3",)
    assert free_part(plan_of(2), JOB, {"n9": "/b"}, OWN) is JOB


def test_a_host_is_the_same_with_its_domain() -> None:
    job = Allocation("pbs", "7", (Host("N1.cluster.org"), Host("n2.cluster.org")))
    assert names(free_part(plan_of(1), job, {"n1": "/a"}, OWN)) == ["n2.cluster.org"]


def test_too_few_free_nodes_are_an_error_that_says_what_to_do() -> None:
    free = free_part(plan_of(3), JOB, {"n1": "/a", "n2": "/b"}, OWN)
    (problem,) = allocation_problems(plan_of(3), free, 0.0)
    assert problem.level == "error"
    assert problem.message == (
        "the plan needs 3 nodes, and Slurm job 12 has 4 nodes, 2 of them free: run /a uses n1; run /b uses n2; "
        "wait for it, or end it: `wf cancel /a`; or ask for 5 nodes"
    )


def test_stages_without_a_launcher_run_beside_the_supervisor() -> None:
    assert names(free_part(plan_of(1, "none"), JOB, {"n2": "/a"}, "n1")) == ["n1", "n3", "n4"]
    free = free_part(plan_of(1, "none"), JOB, {"n1": "/a"}, "n1")
    assert not free.hosts and "stages without a launcher run on n1, which another run uses" in free.notes[0]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("WF_RUN_DIR", raising=False)
    monkeypatch.delenv("SLURM_CLUSTER_NAME", raising=False)
    monkeypatch.setattr("workflow.run.run_allocation.node_name", lambda: OWN)
    return tmp_path / "state/wf/jobs"


def started(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_runs_of_one_job_share_it_out_until_they_end(state: Path, tmp_path: Path) -> None:
    first, second, third = (started(tmp_path, name) for name in ("a", "b", "c"))
    with ExitStack() as stack:
        stack.enter_context(Heartbeat(first))
        with claimed_nodes(first, plan_of(2), JOB) as got:
            assert got is JOB
            stack.enter_context(Heartbeat(second))
            with claimed_nodes(second, plan_of(1), JOB) as got:
                assert names(got) == ["n3", "n4"]
                stack.enter_context(Heartbeat(third))
                with claimed_nodes(third, plan_of(2), JOB) as refused:
                    assert not refused.hosts
                    assert f"run {first} uses n1, n2; run {second} uses n3" in refused.notes[0]
                other = Allocation("slurm", "13", JOB.hosts)
                with claimed_nodes(third, plan_of(2), other) as got:
                    assert got is other, "those of another job are its own"
        # Its supervisor lives on, as that of a notebook does; its nodes are free.
        with claimed_nodes(third, plan_of(4), JOB) as got:
            assert got is JOB
    assert sorted(path.name for path in (state / "slurm-12").iterdir()) == ["1.json", "2.json", "3.json"]


def test_a_run_whose_supervisor_has_died_holds_nothing(state: Path, tmp_path: Path) -> None:
    run = started(tmp_path, "a")
    (state / "slurm-12").mkdir(parents=True)
    (state / "slurm-12/7.json").write_text(json.dumps({"run": str(run), "hosts": ["n1"]}) + "\n")
    with claimed_nodes(started(tmp_path, "b"), plan_of(4), JOB) as got:
        assert got is JOB
        assert json.loads((state / "slurm-12/8.json").read_text())["hosts"] == ["n1", "n2", "n3", "n4"]


@pytest.mark.usefixtures("state")
def test_jobs_of_one_number_on_two_clusters_that_share_a_home_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A centre's clusters count their jobs apart, and name their nodes alike."""
    first, second = started(tmp_path, "a"), started(tmp_path, "b")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "big")
    with Heartbeat(first), claimed_nodes(first, plan_of(4), JOB):
        monkeypatch.setenv("SLURM_CLUSTER_NAME", "small")
        with claimed_nodes(second, plan_of(4), JOB) as got:
            assert got is JOB


@pytest.mark.usefixtures("state")
def test_a_run_inside_of_a_stage_uses_the_nodes_of_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = started(tmp_path, "a"), started(tmp_path, "b")
    with Heartbeat(outer), claimed_nodes(outer, plan_of(4), JOB):
        monkeypatch.setenv("WF_RUN_DIR", str(outer))
        with claimed_nodes(inner, plan_of(4), JOB) as got:
            assert got is JOB


@pytest.mark.parametrize("damage", ["[]", "nonsense", '{"run": 3, "hosts": ["n1"]}', '{"run": "/a", "hosts": "n1"}'])
def test_a_record_that_says_nothing_is_passed_over(state: Path, tmp_path: Path, damage: str) -> None:
    (state / "slurm-12").mkdir(parents=True)
    (state / "slurm-12/1.json").write_text(f"{damage}\n")
    with claimed_nodes(started(tmp_path, "b"), plan_of(4), JOB) as got:
        assert got is JOB


@pytest.mark.parametrize("where", ["here", "nowhere"])
def test_a_folder_for_records_that_cannot_be_written_is_named(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The runs of a host then see each other by its folder for temporary files."""
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp") if where == "here" else "/dev/null")
    first, second = started(tmp_path, "b"), started(tmp_path, "c")
    sees = f"only those that were started on {OWN}" if where == "here" else "none of them"
    note = f"of the other runs of Slurm job 12 wf sees {sees}, and may use the same nodes: /dev/null/wf/jobs/slurm-12: "
    with Heartbeat(first), claimed_nodes(first, plan_of(3), JOB) as got:
        assert names(got) == ["n1", "n2", "n3", "n4"] and got.notes == (f"{note}Not a directory",)
        with claimed_nodes(second, plan_of(1), JOB) as got:
            assert names(got) == (["n4"] if where == "here" else ["n1", "n2", "n3", "n4"])
            assert got.notes[-1] == f"{note}Not a directory"
    local = Allocation("local", "", JOB.hosts)
    with claimed_nodes(started(tmp_path, "d"), plan_of(4), local) as got:
        assert got is local
    assert not state.exists()


def test_a_run_whose_lease_cannot_be_read_may_be_alive(state: Path, tmp_path: Path) -> None:
    run = started(tmp_path, "a")
    (run / "lease.json").mkdir()  # as unreadable for root as for anybody
    (state / "slurm-12").mkdir(parents=True)
    (state / "slurm-12/7.json").write_text(json.dumps({"run": str(run), "hosts": ["n1"]}) + "\n")
    with claimed_nodes(started(tmp_path, "b"), plan_of(1), JOB) as got:
        assert names(got) == ["n2", "n3", "n4"]


def claim_one(run: Path, pipe: Connection) -> None:
    with Heartbeat(run):
        pipe.recv()
        with claimed_nodes(run, plan_of(1), JOB) as got:
            pipe.send(names(got)[:1])
            pipe.recv()


@pytest.mark.usefixtures("state")
def test_runs_that_start_at_the_same_time_get_different_nodes(tmp_path: Path) -> None:
    """Four processes of their own claim at once, more than once."""
    context = multiprocessing.get_context("fork")
    for turn in range(5):
        ends = []
        for number in range(4):
            mine, its = context.Pipe()
            process = context.Process(target=claim_one, args=(started(tmp_path, f"{turn}-{number}"), its))
            process.start()
            ends.append((mine, process))
        for pipe, _ in ends:
            pipe.send("go")
        got = []
        for pipe, process in ends:
            assert pipe.poll(60), f"turn {turn}: {process.name} has claimed nothing"
            got += pipe.recv()
        assert sorted(got) == ["n1", "n2", "n3", "n4"]
        for pipe, process in ends:
            pipe.send("end")
            process.join(60)
            assert process.exitcode == 0
