"""The guards on the nodes, as processes: two nodes that are only names, on this machine, under MPICH's mpiexec."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import adios2
import numpy as np
import pytest

from tests.support.chains import make_plan, make_stage, write_run
from tests.support.waiting import WITHIN_S, wait_until
from workflow.formats.guard_ends import read_guard_ends
from workflow.formats.guard_requests import GuardRequest, write_request
from workflow.formats.node_folder import folders_here, make_here, remove_here
from workflow.formats.run_variables import GUARDS_VARIABLE, STAGE_VARIABLE
from workflow.formats.stage_file import STAGE_FILE
from workflow.launch.allocation import Allocation, Host
from workflow.launch.launchers import ProcessSpec
from workflow.plan.plan_model import LaunchPlan, Placement
from workflow.run.guard import node_guard
from workflow.run.guard.guard_lines import NodeReport, parse_line
from workflow.run.guard.own_node import node_name
from workflow.run.nodes.guards import LOG, NodeGuards, guard_request
from workflow.run.processes.process_reaper import find_members
from workflow.run.processes.stage_processes import StageProcesses
from workflow.run.records.run_directory import read_filled_plan
from workflow.run.state.events import Event, NodeLost, NodeSeen, NodeSilent, NodesUnwatched

SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]
MPIEXEC = str(Path(sys.executable).parent / "mpiexec")
# Stands for the ssh with which mpiexec reaches other nodes: the name of the node is all that they have of their own.
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
SLURMD_NODENAME=$host exec sh -c "$*"
"""
MARK = "WF_TEST_MARK"


def write_lease(run_dir: Path, beat: int) -> None:
    temporary = run_dir / ".lease"
    temporary.write_text(json.dumps({"host": "n1", "pid": 1, "beat": beat}))
    temporary.replace(run_dir / "lease.json")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run of two ranks on two nodes, not started."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    line = LaunchPlan(
        launcher="mpiexec", executable=MPIEXEC, arguments=["-launcher", "ssh", "-launcher-exec", str(ssh)]
    )
    place = Placement(nodes=[(0, 2)], ranks_per_node=1, cores=[], cores_per_rank=0)
    stages = [make_stage("md", SLEEPER, ranks=2, launch=line, placement=place), make_stage("keep", SLEEPER)]
    folder = write_run(make_plan(stages), tmp_path / "run")
    write_lease(folder, 0)
    return folder


@pytest.fixture
def processes(run_dir: Path) -> Iterator[StageProcesses]:
    with StageProcesses(run_dir) as processes:
        yield processes


class Guarded:
    """A guard of its own as a process, and what it has said."""

    def __init__(self, run_dir: Path, node: str = "n2", limit_s: float = 10) -> None:
        argv = [sys.executable, "-I", "-S", node_guard.__file__, str(run_dir), str(limit_s)]
        env = {**os.environ, "SLURMD_NODENAME": node}
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._read = b""

    def reports(self) -> list[NodeReport]:
        assert self.process.stdout is not None
        self._read += self.process.stdout.read() or b""
        found = [parse_line(line) for line in self._read.splitlines()]
        assert None not in found, self._read
        return [report for report in found if report is not None]

    def beat(self) -> None:
        """As a launcher passes it on."""
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), b"\n")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def guard(run_dir: Path) -> Iterator[Guarded]:
    guarded = Guarded(run_dir)
    yield guarded
    guarded.close()


def start_sleeper(processes: StageProcesses, run_dir: Path) -> int:
    folder = run_dir / "stages/keep"
    return processes.start(ProcessSpec("keep", SLEEPER, folder, str(folder), "none"))


def test_guard_reports_ranks_their_cores_and_their_end(
    run_dir: Path, processes: StageProcesses, guard: Guarded
) -> None:
    pid = start_sleeper(processes, run_dir)
    wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
    (rank,) = (rank for report in guard.reports() for rank in report.ranks)
    allowed = Path("/proc/self/status").read_text().split("Cpus_allowed_list:\t")[1].split()[0]
    assert rank == ("keep", 0, pid, allowed)
    assert guard.reports()[0].sees_beats is True and guard.reports()[0].load is not None
    one = min(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {one})
    wait_until(lambda: sum(len(report.ranks) for report in guard.reports()) == 2, "a report of other cores")
    assert [rank.cores for report in guard.reports() for rank in report.ranks][-1] == str(one)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: any(report.gone for report in guard.reports()), "a report of its end")
    last, memory = guard.reports()[-1], [report.memory for report in guard.reports() if report.memory]
    assert last.gone == (("keep", 0),)
    assert memory[0]["keep"].cgroup_kills in (0, None), "the kernel has killed nothing for lack of memory"


def test_guard_ends_the_run_when_the_lease_is_not_renewed(
    run_dir: Path, processes: StageProcesses, guard: Guarded
) -> None:
    start_sleeper(processes, run_dir)
    wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
    write_lease(run_dir, 1)
    wait_until(lambda: not find_members(str(run_dir)), "the end of all processes")
    wait_until(lambda: guard.process.poll() is not None, "the end of the guard")
    assert guard.process.returncode == 0
    said = re.match(r"no heartbeat of the supervisor in the run directory for (\d+) s", guard.reports()[-1].ended)
    assert said and int(said[1]) >= 10
    (end,) = read_guard_ends(run_dir)
    assert end == ("n2", guard.reports()[-1].ended)


def test_guard_ends_nothing_while_the_supervisor_speaks_through_its_launcher(
    run_dir: Path, processes: StageProcesses, guard: Guarded
) -> None:
    """The file system hides the lease: the guard says so, and waits as long as beats come."""
    pid = start_sleeper(processes, run_dir)

    def blind() -> bool:
        guard.beat()
        return any(report.sees_beats is False for report in guard.reports())

    wait_until(blind, "a word on the lease")
    said = len(guard.reports())
    wait_until(lambda: len(guard.reports()) > said, "the next line")
    assert find_members(str(run_dir)) == {pid} and guard.process.poll() is None
    wait_until(lambda: not find_members(str(run_dir)), "the end of all processes when the beats end too")


def hang_lease(run_dir: Path) -> None:
    """Replace the lease by a pipe: to open it hangs, as where the file system does not answer."""
    os.mkfifo(run_dir / ".hanging")
    (run_dir / ".hanging").replace(run_dir / "lease.json")


def test_guard_whose_file_system_hangs_ends_nothing_while_the_supervisor_speaks(
    run_dir: Path, processes: StageProcesses
) -> None:
    """The look at the lease hangs for longer than the limit, and so does the one at requests."""
    write_request(run_dir, GuardRequest())
    guard = Guarded(run_dir, limit_s=4)
    try:
        pid = start_sleeper(processes, run_dir)
        wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
        hang_lease(run_dir)
        begin = time.monotonic()

        def over() -> bool:
            guard.beat()
            return time.monotonic() - begin > 9

        wait_until(over, "twice the limit")
        assert find_members(str(run_dir)) == {pid} and guard.process.poll() is None
        assert not any(report.ended for report in guard.reports())
        wait_until(lambda: not find_members(str(run_dir)), "the end of all processes when the beats end too")
        wait_until(lambda: guard.process.poll() is not None, "the end of the guard, although no file can be written")
        assert guard.reports()[-1].ended.startswith("no heartbeat of the supervisor through the launcher for ")
    finally:
        guard.close()


def test_guard_that_was_stopped_ends_nothing_when_it_goes_on(run_dir: Path, processes: StageProcesses) -> None:
    """With its job: the supervisor was stopped, too, and goes on a moment later."""
    guard = Guarded(run_dir, limit_s=4)
    try:
        pid = start_sleeper(processes, run_dir)
        wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
        guard.beat()
        said = len(guard.reports())
        wait_until(lambda: len(guard.reports()) > said, "the next line")
        guard.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 6, "longer than the limit")
        said = len(guard.reports())
        guard.process.send_signal(signal.SIGCONT)
        wait_until(lambda: len(guard.reports()) > said, "the first line after it")
        for beat in range(1, 5):
            guard.beat()
            write_lease(run_dir, beat)
            said = len(guard.reports())
            wait_until(lambda: len(guard.reports()) > said, "the next line")  # noqa: B023
        assert find_members(str(run_dir)) == {pid} and guard.process.poll() is None
    finally:
        guard.close()


def test_guard_whose_pipe_is_closed_ends_the_run_when_the_lease_is_silent_too(
    run_dir: Path, processes: StageProcesses
) -> None:
    """The supervisor was killed: nobody waits for the limit, of an hour here."""
    guard = Guarded(run_dir, limit_s=3600)
    try:
        start_sleeper(processes, run_dir)
        wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
        guard.beat()
        assert guard.process.stdin is not None
        guard.process.stdin.close()
        wait_until(lambda: not find_members(str(run_dir)), "the end of all processes")
        wait_until(lambda: guard.process.poll() is not None, "the end of the guard")
        assert guard.reports()[-1].ended.startswith("the supervisor has closed its connection, and shows no heartbeat")
    finally:
        guard.close()


def test_guard_removes_the_shared_memory_that_killed_ranks_have_left(
    run_dir: Path, processes: StageProcesses, guard: Guarded
) -> None:
    file = Path(f"/dev/shm/mpich_shm_of_test_{os.getpid()}")
    use = f"f = open({str(file)!r}, 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 0)"
    code = f"import mmap, time; {use}; time.sleep(300)"
    folder = run_dir / "stages/keep"
    try:
        processes.start(ProcessSpec("keep", [sys.executable, "-c", code], folder, str(folder), "none"))
        wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
        wait_until(file.exists, "its shared memory")
        said = len(guard.reports())
        wait_until(lambda: len(guard.reports()) > said + 1, "another look at it")
        for pid in find_members(str(run_dir)):
            os.kill(pid, signal.SIGKILL)
        guard.process.terminate()
        wait_until(lambda: guard.process.poll() is not None, "the end of the guard")
        assert not file.exists()
    finally:
        file.unlink(missing_ok=True)


def test_guard_leaves_other_runs_alone(run_dir: Path, tmp_path: Path, processes: StageProcesses) -> None:
    other = write_run(make_plan([make_stage("keep", SLEEPER)]), tmp_path / "other")
    write_lease(other, 0)
    pid = start_sleeper(processes, run_dir)
    guarded = Guarded(other)
    try:
        guarded.process.wait(WITHIN_S)
    finally:
        guarded.close()
    assert find_members(str(run_dir)) == {pid}


def test_guard_ends_by_sigterm_when_the_run_has_ended_on_its_node(
    run_dir: Path, processes: StageProcesses, guard: Guarded
) -> None:
    start_sleeper(processes, run_dir)
    wait_until(lambda: any(report.ranks for report in guard.reports()), "a report of the rank")
    guard.process.terminate()
    said = len(guard.reports())
    wait_until(lambda: len(guard.reports()) > said, "a beat after SIGTERM")
    assert guard.process.poll() is None, (
        "a job that is cancelled gets SIGTERM everywhere; its stages may take their time"
    )
    processes.end_all()
    wait_until(lambda: guard.process.poll() is not None, "the end of the guard")
    assert guard.process.returncode == 0


def test_guard_ends_an_attempt_of_a_stage_that_the_supervisor_names(run_dir: Path, processes: StageProcesses) -> None:
    """A launcher that was killed has left it; the next attempt, in a folder of its own, lives."""
    folder, nothing = run_dir / "stages/keep", GuardRequest()
    write_request(run_dir, nothing)
    guard = Guarded(run_dir)
    try:
        start_sleeper(processes, run_dir)
        (folder / "attempt-2").mkdir()
        (folder / "attempt-2" / STAGE_FILE).write_bytes((folder / STAGE_FILE).read_bytes())
        again = ProcessSpec("again", SLEEPER, folder / "attempt-2", str(folder), "none")
        processes.start(again)
        write_request(run_dir, nothing._replace(stages=[str(folder / STAGE_FILE)]))
        wait_until(lambda: not find_members(str(folder / STAGE_FILE), by=STAGE_VARIABLE), "the end of the attempt")
        assert find_members(str(folder / "attempt-2" / STAGE_FILE), by=STAGE_VARIABLE)
        assert guard.process.poll() is None
    finally:
        guard.close()


def write_spool(run_dir: Path) -> Path:
    """As the stage of a spool does on its node: six steps of 2 MB in memory."""
    link = run_dir / "streams/field-spool.bp"
    make_here(link, run_dir, "/dev/shm")
    with adios2.Stream(str(link), "w") as stream:
        for step in stream.steps(6):
            step.write("V", np.ones(1 << 18), [1 << 18], [0], [1 << 18])
    return link


@pytest.mark.parametrize("how", ["SIGTERM", "request"])
def test_guard_frees_what_the_supervisor_asks_for_and_removes_the_spool_at_the_end(how: str, run_dir: Path) -> None:
    write_request(run_dir, GuardRequest())
    guard = Guarded(run_dir)
    try:
        data = write_spool(run_dir) / "data.0"
        whole = data.stat().st_blocks
        write_request(run_dir, GuardRequest(first={data.parent.name: 4}))
        wait_until(lambda: data.stat().st_blocks < whole / 2, "the data of four of six steps to be freed")
        assert folders_here(run_dir)
        if how == "SIGTERM":
            guard.process.terminate()
        else:
            write_request(run_dir, GuardRequest(ended=True))
        wait_until(lambda: guard.process.poll() is not None, "the end of the guard")
        assert guard.process.returncode == 0
        assert not folders_here(run_dir)
        assert not data.parent.is_symlink()
    finally:
        guard.close()


def test_guard_removes_the_spools_of_a_run_without_a_supervisor(
    run_dir: Path, processes: StageProcesses, guard: Guarded
) -> None:
    start_sleeper(processes, run_dir)
    write_spool(run_dir)
    other = write_spool(write_run(make_plan([make_stage("keep", SLEEPER)]), run_dir.with_name("other")))
    wait_until(lambda: guard.process.poll() is not None, "the end of the guard, for lack of beats")
    assert not folders_here(run_dir)
    assert (other / "data.0").exists(), "that of another run"
    remove_here(other.parents[1])


def test_guard_is_not_held_up_by_a_full_pipe(run_dir: Path, processes: StageProcesses) -> None:
    """The launcher that reads its output was suspended, or is dead."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    start_sleeper(processes, run_dir)
    argv = [sys.executable, "-I", "-S", node_guard.__file__, str(run_dir), "10"]
    process = subprocess.Popen(argv, stdout=writer, start_new_session=True)
    try:
        wait_until(lambda: not find_members(str(run_dir)), "the end of all processes")
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)


def guards_of(run_dir: Path, *hosts: str) -> NodeGuards:
    return NodeGuards(run_dir, read_filled_plan(run_dir), Allocation("slurm", "1", tuple(map(Host, hosts))))


def poll_until(guards: NodeGuards, happened: Callable[[list[Event]], bool], what: str) -> list[Event]:
    events: list[Event] = []
    beat = 0

    def look() -> bool:
        nonlocal beat
        beat += 1
        write_lease(run_dir_of(guards), beat)
        events.extend(guards.poll(time.monotonic()))
        return happened(events)

    wait_until(look, what)
    return events


def run_dir_of(guards: NodeGuards) -> Path:
    return guards._run_dir


def test_supervisor_whose_loop_waits_for_a_file_speaks_to_the_guards_and_hears_them(run_dir: Path) -> None:
    """Nobody calls `poll`, and the lease is not renewed: the file system of the run directory hangs."""
    guards = guards_of(run_dir, "n1", "n2")
    try:
        poll_until(guards, lambda events: len(events) == 2, "a word of both nodes")
        pids = guards_running(run_dir)
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 15, "longer than the limit, of 10 s")
        # MPICH's mpiexec passes the beats on to its first process only.
        assert {*guards_running(run_dir)} & {*pids}
        assert not any(isinstance(event, NodeLost | NodeSilent) for event in guards.poll(time.monotonic()))
    finally:
        guards.close()


def test_guards_of_two_nodes_start_speak_and_end(run_dir: Path) -> None:
    guards = guards_of(run_dir, "n1", "n2")
    try:
        events = poll_until(guards, lambda events: len(events) == 2, "a word of both nodes")
        assert {(event.node, event.host) for event in events if isinstance(event, NodeSeen)} == {(0, "n1"), (1, "n2")}
    finally:
        guards.close()
    beats = itertools.count(10**6)

    def ended() -> bool:
        write_lease(run_dir, next(beats))  # or a guard would end because nobody gives a sign of life
        return not guards_running(run_dir)

    wait_until(ended, "the end of the guards")


def guards_running(run_dir: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(node_guard.__file__) in words and os.fsencode(run_dir) in words and b"-S" in words[:3]:
                found.append(int(entry.name))
    return found


def test_node_whose_guard_is_stopped_is_lost(run_dir: Path) -> None:
    guards = guards_of(run_dir, "n1", "n2")
    try:
        poll_until(guards, lambda events: len(events) == 2, "a word of both nodes")
        (victim,) = (pid for pid in guards_running(run_dir) if b"SLURMD_NODENAME=n2" in environ(pid))
        os.kill(victim, signal.SIGSTOP)
        (silent,) = poll_until(guards, bool, "the silence of a node")
        assert isinstance(silent, NodeSilent) and silent.host == "n2"
        # The limit of these runs, 10 s, is when silence is reported to users, too.
        *reported, event = poll_until(
            guards, lambda events: isinstance(events[-1], NodeLost) if events else False, "a loss"
        )
        assert isinstance(event, NodeLost) and all(isinstance(each, NodeSilent) for each in reported)
        assert (event.host, event.last.partition(";")[0]) == ("n2", "no rank there")
        assert event.silence_s >= 10
        os.kill(victim, signal.SIGKILL)
    finally:
        guards.close()


def environ(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_guards_that_do_not_start_are_a_note(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\necho no route to host >&2; exit 255\n")
    guards = guards_of(run_dir, "n1", "n2")
    try:
        events = poll_until(guards, bool, "the note")
        assert guards.poll(time.monotonic()) == []
    finally:
        guards.close()
    assert len(events) == 1 and isinstance(events[0], NodesUnwatched), events
    assert events[0].text.startswith("the guards of the nodes have ended with exit code ")
    assert "no route to host" in (run_dir / LOG).read_text()


def test_no_guards_where_they_would_take_cores_of_the_stages(run_dir: Path) -> None:
    place = Placement(nodes=[(0, 2)], ranks_per_node=1, cores=[], cores_per_rank=0)
    needed = []
    for launcher in ("srun", "flux"):
        line = LaunchPlan(launcher=launcher, executable=launcher)
        plan = make_plan([make_stage("md", SLEEPER, ranks=2, launch=line, placement=place)])
        needed.append(guard_request(plan, ["n1", "n2"], run_dir, ["guard"]) is not None)
    assert needed == [True, False]


def test_no_guards_where_all_runs_here(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, str(run_dir))
    plan = make_plan([make_stage("keep", SLEEPER)])
    here = Allocation("slurm", "1", (Host(node_name()),))
    elsewhere = Allocation("slurm", "1", (Host("n1"), Host("n2")))
    local = Allocation("local", "", (Host("any"),))
    ranks = read_filled_plan(run_dir)
    for its, allocation, starts in (
        (plan, elsewhere, False),
        (ranks, here, False),
        (plan, local, False),
        (ranks, elsewhere, True),
    ):
        guards = NodeGuards(run_dir, its, allocation)
        try:
            guards.poll(time.monotonic())
            assert (run_dir / LOG).exists() == starts
        finally:
            guards.close()
    wait_until(lambda: not marked(run_dir), "the end of all that the launcher started")


def marked(run_dir: Path) -> set[int]:
    return find_members(str(run_dir), by=MARK)


HANGING_SSH = """#!/bin/sh
# As a connection that never comes about.
touch "$0.$$"
sleep 300
"""


def test_a_launcher_that_has_reached_no_node_leaves_nothing_behind(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, str(run_dir))
    (tmp_path / "ssh").write_text(HANGING_SSH)
    guards = guards_of(run_dir, "n1", "n2")
    try:
        guards.poll(time.monotonic())
        wait_until(lambda: len([*tmp_path.glob("ssh.*")]) == 2, "connections to both nodes")
        assert len(marked(run_dir)) >= 3
    finally:
        guards.close()
    wait_until(lambda: not marked(run_dir), "the end of all that the launcher started")


def test_a_guard_that_is_started_again_ends_the_one_before_it_and_not_its_launcher(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes through the pipe of the old one any more: it would take the supervisor for dead."""
    monkeypatch.setenv(GUARDS_VARIABLE, str(run_dir))
    argv = [sys.executable, "-I", "-S", node_guard.__file__, str(run_dir), "10"]
    # As a launcher has the program among its words.
    launcher = subprocess.Popen(["/bin/sh", "-c", "read word", "sh", *argv], stdin=subprocess.PIPE)
    first, elsewhere = Guarded(run_dir), Guarded(run_dir, "n3")
    wait_until(lambda: first.reports() and elsewhere.reports(), "a word of both")
    second = Guarded(run_dir)
    try:
        wait_until(lambda: first.process.poll() is not None, "the end of the first guard")
        wait_until(second.reports, "a word of the second one")
        assert [each.poll() for each in (second.process, elsewhere.process, launcher)] == [None] * 3
    finally:
        for each in (first, second, elsewhere):
            each.close()
        launcher.communicate()
