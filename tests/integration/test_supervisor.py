"""Whole runs of small real stages under the supervisor."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import PROGRAMS, ROOT, Way, chain, make_end, make_plan, make_stage, make_stream, write_run
from workflow.launch.allocation import Allocation, Host
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.plan_model import LaunchPlan, Placement, Plan
from workflow.report.report_files import compute_report
from workflow.run.records.events_file import read_events
from workflow.run.records.run_directory import read_filled_plan
from workflow.run.state.events import StageCpu, StageExited, StageStarted
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import RunState, initial_state
from workflow.run.supervisor import supervise


def run(plan: Plan, folder: Path) -> tuple[Path, list[RunState]]:
    run_dir = write_run(plan, folder)
    states = list(supervise(run_dir))
    verdict = states[-1].finished
    logs = {path.parent.name: path.read_text(errors="replace")[-600:] for path in run_dir.glob("stages/*/stderr.log")}
    assert verdict is not None
    assert verdict.state == "succeeded", f"{verdict} {logs}"
    return run_dir, states


def hosts(*names: str) -> Allocation:
    return Allocation("hostfile", "", tuple(map(Host, names)))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("way", ["sst", "live", "after"])
def test_chain(way: Way, plain: bool, tmp_path: Path) -> None:
    # A second of steps and more: several looks at the files (every 0.25 s) fall into it.
    run_dir, states = run(chain(way, plain=plain, steps=12, step_s=0.12), tmp_path)
    last = states[-1]
    assert {stage.status for stage in last.stages.values()} == {"succeeded"}
    for stream in ("atoms", "pattern"):
        written, read = last.steps(stream)
        assert written == 12
        if way == "sst" or not plain:
            assert list(read.values()) == [12]
            assert sum(end.bytes for end in last.readers(stream)) == 12 * 800
    assert not list((run_dir / "streams").glob("*.sst"))
    assert any(state.writer("atoms").steps > 0 and state.stages["md"].runs for state in states), "steps were seen live"


@pytest.mark.parametrize("plain", [False, True])
def test_cpu_time_is_sampled_of_all_programs_and_known_in_the_end(plain: bool, tmp_path: Path) -> None:
    run_dir, _ = run(chain("sst", plain=plain, steps=12, step_s=0.08), tmp_path)
    events = list(read_events(run_dir))
    for name in ("md", "saxs", "keep"):
        samples = [event.cpu_s for event in events if isinstance(event, StageCpu) and event.stage == name]
        (exited,) = (event for event in events if isinstance(event, StageExited) and event.stage == name)
        assert exited.cpu_s is not None
        assert exited.cpu_s > 0.01, "an import of numpy takes longer"
        assert samples == sorted(samples)
        assert samples and samples[-1] <= exited.cpu_s + 0.02


def test_state_on_disk_is_the_state_seen(tmp_path: Path) -> None:
    run_dir, states = run(chain("sst", steps=5), tmp_path)

    def seen(state: RunState) -> object:
        # Which steps of the way were looked at differs; where it led does not.
        ends = {key: replace(end, last_step=None, next_written=None) for key, end in state.ends.items()}
        return state.stages, ends, state.finished

    assert seen(fold(initial_state(read_filled_plan(run_dir)), read_events(run_dir))) == seen(states[-1])


def test_one_writer_and_two_readers(tmp_path: Path) -> None:
    def stage(name: str, *options: str, side: str) -> object:
        end = make_end("data", "write" if side == "write" else "read", readers=2)
        argv = [sys.executable, str(PROGRAMS / "staged.py"), *options]
        return make_stage(name, argv, [end], env={"PYTHONPATH": str(ROOT)})

    stages = [stage("a", side="read"), stage("b", side="read"), stage("md", "--steps", "9", side="write")]
    _, states = run(make_plan(stages, [make_stream("data", "md", ["a", "b"])]), tmp_path)  # type: ignore[arg-type]
    assert states[-1].steps("data") == (9, {"a": 9, "b": 9})


def test_file_that_is_handed_over(tmp_path: Path) -> None:
    more: Any = {"engine": "file", "path": "${{ run.dir }}/streams/table.txt"}
    ends = [make_end("table", "write", "after", **more), make_end("table", "read", "after", **more)]
    stages = [
        make_stage("make", ["sh", "-c", "echo 42 > ../../../streams/table.txt"], ends[:1]),
        make_stage("use", ["sh", "-c", "cat ../../../streams/table.txt"], ends[1:], starts_after=["make"]),
    ]
    run_dir, _ = run(make_plan(stages, [make_stream("table", "make", ["use"], "after", engine="file")]), tmp_path)
    assert (run_dir / "stages" / "use" / "stdout.log").read_text() == "42\n"


def test_lines_get_the_hosts_of_the_nodes_of_their_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a launcher that says which hosts it was given; it also shows that a run needs nothing else of a new one."""

    def line(request: LaunchRequest) -> LaunchLine:
        path = request.program[0]
        return LaunchLine(["cat", path], {path: lambda: f"{request.own_hosts}"})

    monkeypatch.setitem(LAUNCHERS, "show", Launcher(line, executable="show"))
    nodes = Placement(nodes=[(1, 3)], ranks_per_node=1, cores=[], cores_per_rank=0)
    launch = LaunchPlan(launcher="show", executable="show")
    stage = make_stage("md", ["${{ run.dir }}/hosts"], launch=launch, ranks=2, placement=nodes)
    run_dir = write_run(make_plan([stage]), tmp_path)
    (*_, last) = supervise(run_dir, hosts("n0", "n1", "n2", "n3"))
    assert last.finished is not None
    assert last.finished.state == "succeeded", last.finished
    assert (run_dir / "stages/md/stdout.log").read_text() == "('n1', 'n2')"
    received = json.loads((run_dir / "allocation.json").read_text())
    assert received["source"] == "hostfile" and [host["name"] for host in received["hosts"]] == ["n0", "n1", "n2", "n3"]


def test_a_plan_that_does_not_fit_the_allocation_starts_nothing(tmp_path: Path) -> None:
    plan = make_plan([make_stage("md", ["touch", "${{ run.dir }}/started"])])
    two = plan.stages[0].placement.model_copy(update={"nodes": [(0, 2)]})
    plan = plan.model_copy(update={"stages": [plan.stages[0].model_copy(update={"placement": two})]})
    run_dir = write_run(plan, tmp_path)
    (*_, last) = supervise(run_dir, hosts("n0"))
    assert last.finished is not None
    assert (last.finished.state, last.finished.exit_code) == ("failed", 1)
    assert last.finished.reason.startswith("the plan needs 2 nodes, and the host file has 1: n0: ask for 2")
    assert not (run_dir / "started").exists()
    found = [type(event).__name__ for event in read_events(run_dir)]
    assert found == ["RunStarted", "AllocationReceived", "RunFinished"]
    assert compute_report(run_dir).run.reason == last.finished.reason


def test_what_is_not_known_of_the_allocation_is_in_the_report(tmp_path: Path) -> None:
    plan = make_plan([make_stage("md", ["true"])])
    run_dir = write_run(plan, tmp_path)
    note = "the end of the job is not known: qstat gave no answer within 5 s"
    *_, last = supervise(run_dir, Allocation("pbs", "7.server", (Host("n0"), Host("n1")), notes=(note,)))
    assert last.finished is not None and last.finished.state == "succeeded"
    idle = "PBS job 7.server has 2 nodes, and the plan for site local uses 1: 1 stays idle"
    assert compute_report(run_dir).notes[:2] == [note, idle]


def test_mpiexec_starts_ranks_on_the_hosts_that_it_is_given(tmp_path: Path) -> None:
    plan = chain("live", ranks=2, steps=3, sink=False)
    run_dir = write_run(plan, tmp_path)
    (*_, last) = supervise(run_dir, hosts("localhost"))
    assert last.finished is not None
    assert last.finished.state == "succeeded", last.finished


def test_stream_that_is_not_kept(tmp_path: Path) -> None:
    plan = chain("after", steps=3, sink=False)
    plan = plan.model_copy(update={"streams": [plan.streams[0].model_copy(update={"keep": False})]})
    run_dir, states = run(plan, tmp_path)
    assert not (run_dir / "streams" / "atoms.bp").exists()
    assert states[-1].cleaned == ("streams/atoms.bp",)


def test_what_a_stage_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")  # as `wf` does
    monkeypatch.setenv("PMI_RANK", "3")  # wf itself is a rank of something
    text = (
        "import json, os, sys; print(json.dumps({'env': dict(os.environ), 'cwd': os.getcwd(), 'session': os.getsid(0),"
        " 'pid': os.getpid(), 'cores': sorted(os.sched_getaffinity(0)), 'stdin': sys.stdin.read()}))"
    )
    cores = Placement(nodes=[(0, 1)], ranks_per_node=1, cores=[0], cores_per_rank=1)
    stage = make_stage("md", [sys.executable, "-c", text], env={"MINE": "${{ run.dir }}/x"}, placement=cores)
    run_dir, _ = run(make_plan([stage]), tmp_path)
    told = json.loads((run_dir / "stages" / "md" / "stdout.log").read_text())
    assert told["cwd"] == str(run_dir / "stages" / "md" / "work")
    assert told["session"] == told["pid"]
    assert told["stdin"] == ""
    assert told["cores"] == sorted(os.sched_getaffinity(0))[:1]
    assert told["env"]["MINE"] == f"{run_dir}/x"
    assert told["env"]["WF_STAGE"] == str(run_dir / "stages" / "md" / "stage.json")
    assert told["env"]["WF_RUN_DIR"] == str(run_dir)
    assert "PMI_RANK" not in told["env"]
    assert "PYDANTIC_DISABLE_PLUGINS" not in told["env"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_stages_with_sst_get_process_ids_far_apart(ranks: int, tmp_path: Path) -> None:
    run_dir, _ = run(chain("sst", ranks=ranks, steps=2), tmp_path)
    pids = [event.pid for event in read_events(run_dir) if isinstance(event, StageStarted)]
    assert all(abs(a - b) >= 250 for a in pids for b in pids if a is not b), pids


def test_next_stage_starts_at_once(tmp_path: Path) -> None:
    stages = [make_stage(name, ["true"], starts_after=after) for name, after in (("a", []), ("b", ["a"]), ("c", ["b"]))]
    run_dir, states = run(make_plan(stages), tmp_path)
    order = [
        (type(event), event.stage) for event in read_events(run_dir) if isinstance(event, StageExited | StageStarted)
    ]
    assert order == [(kind, name) for name in "abc" for kind in (StageStarted, StageExited)]
    # Not one look at the files later: no state has the end of a stage without the start of the next one.
    for before, after in (("a", "b"), ("b", "c")):
        seen = [state.stages[after].started for state in states if state.stages[before].status == "succeeded"]
        assert seen and None not in seen


def test_signals_are_the_callers_again_afterwards(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    run(make_plan([make_stage("a", ["true"])]), tmp_path)
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.set_wakeup_fd(-1) == -1


def test_works_in_another_thread(tmp_path: Path) -> None:
    ended: list[RunState] = []
    plan = make_plan([make_stage("a", ["true"])])
    thread = threading.Thread(target=lambda: ended.extend(run(plan, tmp_path)[1][-1:]))
    thread.start()
    thread.join(60)
    assert ended
    assert ended[0].finished is not None
