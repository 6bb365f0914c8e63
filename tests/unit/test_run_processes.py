"""Endings as launchers tell them, process ids, and the members of a run."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.waiting import wait_until
from workflow.formats.run_clock import this_boot
from workflow.launch.launchers import ProcessSpec
from workflow.run.processes import process_reaper, run_guard
from workflow.run.processes.adios2_workarounds import use_up_ids
from workflow.run.processes.process_reaper import end_members, find_members, living_groups
from workflow.run.processes.stage_processes import Ending, StageProcesses, to_ending
from workflow.run.run_loop import RunLoop
from workflow.run.state.events import StreamHint, StreamTrouble

KILLED = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"
BUSY = "Unable to create step for job 12: Requested nodes are busy"


@pytest.mark.parametrize(
    ("code", "launcher", "lines", "ending"),
    [
        (0, "none", [], Ending(0, None)),
        (3, "none", [KILLED], Ending(3, None)),
        (-15, "none", [], Ending(None, 15)),
        (137, "none", [], Ending(137, None)),
        (9, "mpiexec", ["=   EXIT CODE: 9", KILLED], Ending(9, 9, "one of its ranks")),
        (9, "mpiexec", [], Ending(9, None)),
        (1, "mpiexec", [KILLED], Ending(1, None)),
        (139, "srun", [], Ending(139, 11, "one of its ranks")),
        (255, "srun", [], Ending(255, None)),
        (1, "srun", [f"srun: error: {BUSY}"], Ending(1, None, f"srun did not start it: {BUSY}")),
    ],
)
def test_endings(code: int, launcher: str, lines: list[str], ending: Ending) -> None:
    assert to_ending(code, launcher, lines) == ending


def process(name: str, argv: list[str], folder: Path) -> ProcessSpec:
    return ProcessSpec(name, argv, folder, str(folder), "none")


def new_id() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_ids_are_used_up() -> None:
    before = new_id()
    use_up_ids(100)
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert (new_id() - before) % limit >= 100


def test_limit_on_threads_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    class Library:
        getpid = pthread_detach = staticmethod(lambda *_: 0)

        @staticmethod
        def pthread_create(*_: object) -> int:
            tried.append(1)
            return errno.EAGAIN if len(tried) == 2 else 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library)
    use_up_ids(3)
    assert len(tried) == 4


def test_members_are_found_and_ended(tmp_path: Path) -> None:
    program = "import subprocess; subprocess.Popen(['sleep', '100'], start_new_session=True); print(1, flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{program}; input()"], env={**os.environ, "WF_RUN_DIR": str(tmp_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        assert find_members(str(tmp_path / "other")) == set()
        assert len(find_members(str(tmp_path))) == 2
        assert end_members(str(tmp_path)) == set()
        assert process.wait(60) == -9
    assert find_members(str(tmp_path)) == set()


def test_one_stage_is_ended_and_what_its_launcher_left(tmp_path: Path) -> None:
    """With a process that went into a session of its own, as the ranks of launchers do; the other stage goes on."""
    program = "import signal, subprocess, sys; print(subprocess.Popen(['sleep', '100'], start_new_session=True).pid)"
    waits = f"{program}; sys.stdout.flush(); signal.pause()"
    with StageProcesses(tmp_path) as processes:
        folders = {name: tmp_path / name for name in ("stays", "hangs", "left")}
        for name, folder in folders.items():
            folder.mkdir()
            argv = [sys.executable, "-c", program if name == "left" else waits]
            processes.start(process(name, argv, folder))
        assert processes.wait(60) == ["left"]
        processes.collect("left")
        children = {name: int(read_line(folder / "stdout.log")) for name, folder in folders.items()}
        for name in ("left", "hangs"):
            processes.end(name, folders[name])
        assert living_groups(children.values()) == {children["stays"]}
        assert processes.wait(60) == ["hangs"]
        assert replace(processes.collect("hangs"), cpu_s=None) == Ending(None, signal.SIGKILL)


@pytest.mark.parametrize("launcher", ["mpiexec", "openmpi"])
@pytest.mark.parametrize("is_here", [True, False])
def test_ranks_on_other_nodes_are_not_missed_here(launcher: str, is_here: bool, tmp_path: Path) -> None:
    """There a launcher has only what connects it to its proxies on other nodes, which are no ranks and use no CPU."""
    with StageProcesses(tmp_path) as processes:
        processes.start(replace(process("sim", ["sleep", "100"], tmp_path), launcher=launcher, is_here=is_here))
        assert processes.without_ranks(-1.0) == (["sim"] if is_here and launcher == "mpiexec" else [])
        assert processes.has_all_here("sim") is is_here
        assert (processes.cpu_use("sim") is not None) is is_here
        assert processes.is_alive("sim") is (False if is_here else None), "no rank lives, or none can be seen"


@pytest.mark.parametrize(
    ("program", "writers"),
    [
        ("open_it('ab'); open_it('rb')", 1),
        ("open_it('ab', forks=True)", 1),
        ("open_it('ab'); open_it('r+b')", 2),
    ],
    ids=["one reads it back", "one forks", "two write it"],
)
def test_who_writes_a_file(program: str, writers: int, tmp_path: Path) -> None:
    """Neither a reader of the file, nor a child that has inherited it from its writer, writes a copy of its own."""
    (tmp_path / "md.idx").touch()
    opens = (
        "import os, signal\n"
        "def open_it(mode, forks=False):\n"
        "    if os.fork() == 0:\n"
        "        file = open('md.idx', mode)\n"
        "        if not forks or os.fork():\n"
        "            os.write(1, b'x')\n"
        "        signal.pause()\n"
        f"{program}\nsignal.pause()\n"
    )
    with StageProcesses(tmp_path) as processes:
        processes.start(process("sim", [sys.executable, "-c", opens], tmp_path))
        wait_until(lambda: len((tmp_path / "stdout.log").read_text()) == program.count("("), "the file is open")
        assert processes.writers_of("sim", tmp_path / "md.idx") == writers


@pytest.mark.parametrize(("imports", "is_seen"), [("adios2", True), ("adios2, mpi4py.MPI", False), ("json", False)])
def test_copies_that_a_log_tells_of_end_a_run_where_they_are_seen(imports: str, is_seen: bool, tmp_path: Path) -> None:
    """Processes with an MPI library, or with an ADIOS2 that cannot be seen, may be ranks of one program."""
    program = f"import os, signal, {imports}; os.fork(); os.write(1, b'x'); signal.pause()"
    said = StreamTrouble(1.0, "heat", "sim", "copies", "2 copies")
    with StageProcesses(tmp_path) as processes:
        processes.start(process("sim", [sys.executable, "-c", program], tmp_path))
        wait_until(lambda: (tmp_path / "stdout.log").read_text() == "xx", "both have begun")
        loop = cast(RunLoop, SimpleNamespace(processes=processes))
        hint = StreamHint(1.0, "heat", "sim", "by its log, 2 copies")
        assert RunLoop.confirmed(loop, [said]) == [said if is_seen else hint]


def read_line(path: Path) -> str:
    """The first line of a file that is being written."""
    deadline = time.monotonic() + 60
    while not (text := path.read_text()).endswith("\n"):
        assert time.monotonic() < deadline, f"no line in {path}"
        time.sleep(0.01)
    return text


def sleeper(**environment: str) -> subprocess.Popen[bytes]:
    """A process in a session of its own, whose environment can be read."""
    env = {"PATH": os.environ["PATH"], **environment}
    process = subprocess.Popen(["sleep", "100"], env=env, start_new_session=True)
    # `Popen` returns in the middle of exec, some microseconds before the environment is there.
    deadline = time.monotonic() + 60
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        assert time.monotonic() < deadline, "no environment"
    return process


def test_process_of_another_run_is_no_member_by_its_number(tmp_path: Path) -> None:
    other, nameless = sleeper(WF_RUN_DIR=str(tmp_path / "other")), sleeper()
    try:
        assert find_members(str(tmp_path), [other.pid, nameless.pid]) == {nameless.pid}
        assert living_groups([other.pid, nameless.pid, 2**30]) == {other.pid, nameless.pid}
    finally:
        other.kill()
        nameless.kill()
        other.wait()
        nameless.wait()
    assert living_groups([other.pid, nameless.pid]) == set()


@pytest.mark.parametrize("killed", [False, True])
def test_group_that_has_ended_is_forgotten(tmp_path: Path, killed: bool) -> None:
    """By the supervisor, and by the guard for when that is killed: what has the number then is a stranger."""
    with StageProcesses(tmp_path) as processes:
        processes.start(process("gone", ["true"], tmp_path))
        left = "import subprocess; print(subprocess.Popen(['sleep', '100'], env={}).pid)"
        stays = processes.start(process("left", [sys.executable, "-c", left], tmp_path))
        ended = set[str]()
        while ended != {"gone", "left"}:
            for name in processes.wait(60):
                processes.collect(name)
                ended.add(name)
        assert processes._groups == {stays}, "what outlived its leader is still ours"
        orphan = int((tmp_path / "stdout.log").read_text())
        os.kill(orphan, signal.SIGKILL)
        while living_groups([stays]):
            pass
        processes.end_lost(1e9)
        assert processes._groups == set()
        stranger = sleeper()
        try:
            # As if the number were used again: told, and taken back.
            processes._tell(stranger.pid)
            processes._tell(-stranger.pid)
            if killed:
                assert processes._guard.stdin is not None
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, processes._guard.stdin.fileno())
                os.close(nothing)
                processes._guard.wait(60)
                assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


def test_memory_of_ranks_is_looked_at_when_processes_were_added_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks without MPICH's shared memory, those of another MPI: their maps were read four times a second."""
    looks: list[float] = []
    now = 0.0

    def look(_: object) -> set[str]:
        looks.append(now)
        return set()

    monkeypatch.setattr(process_reaper, "shared_memory", look)

    def watch(ids: frozenset[int], seconds: int) -> int:
        nonlocal now
        before = len(looks)
        for _ in range(4 * seconds):
            now += 0.25
            processes._find_shared("md", ids, now)
        return len(looks) - before

    with StageProcesses(tmp_path) as processes:
        assert 5 <= watch(frozenset({1, 2}), 3600) <= 12
        assert watch(frozenset({1, 2}), 3600) == 0
        assert watch(frozenset({2}), 3600) == 0, "a process that ends changes nothing"
        assert 5 <= watch(frozenset({2, 3}), 3600) <= 12


@pytest.mark.parametrize("known", [True, False])
def test_guard_dates_its_verdict_by_the_clock_of_the_run(known: bool, tmp_path: Path) -> None:
    """The wall clock has been set since the run began: by more than 11 days."""
    offset_s = time.time() - time.monotonic() - (1e6 if known else 0.0)
    first = {
        "event": "run_started",
        "events_version": 3,
        "t": 0.0,
        "host": os.uname().nodename,
        "boot": this_boot(),
    } | ({"clock_offset_s": offset_s} if known else {})
    events = tmp_path / "events.jsonl"
    events.write_text(json.dumps(first) + "\n")
    subprocess.run(run_guard.guard_command(tmp_path), stdin=subprocess.DEVNULL, check=True)
    last = json.loads(events.read_text().splitlines()[-1])
    assert last["event"] == "run_finished"
    assert abs(last["t"] - (time.monotonic() + offset_s)) < 1e5
