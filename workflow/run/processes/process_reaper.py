"""Finds and ends all processes of a run.

Launchers put their ranks into sessions of their own, and a process that outlives its parent is adopted by init, so
neither process groups nor parents lead to all processes. All inherit the environment: WF_RUN_DIR names the run.

`run_guard` imports this module where only the standard library can be found.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from workflow.formats.node_folder import remove_here
from workflow.formats.run_clock import run_time
from workflow.formats.run_variables import RUN_VARIABLE

PROC = Path("/proc")
EVENTS = "events.jsonl"
_SHARED = b"/dev/shm/mpich_shm_"
_BORN = 19  # the field of /proc/PID/stat after the state, counted from it
_GONE_S = 3.0
_READ_BYTES = 65536


def find_members(named_as: str, groups: Iterable[int] = (), by: str = RUN_VARIABLE) -> set[int]:
    """Ids of the living processes of a run: by their environment, session, process group or parent.

    `named_as` is the value of the variable `by`: the run's directory, or with STAGE_VARIABLE the file of one stage.
    `groups` are the process groups of its stages; without /proc only these are known. A process whose environment
    names another run is left out, whatever its group: the system reuses process ids.
    """
    if not PROC.is_dir():
        return {group for group in groups if _exists(group)}
    variable = f"{by}=".encode()
    mark = variable + os.fsencode(named_as)
    known, found = set(groups), set()
    parents: dict[int, int] = {}
    for entry in os.scandir(PROC):
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            state, parent, group, session = _stat(entry.path)
            if state in "ZX" or entry.stat().st_uid != os.getuid():
                continue
            parents[pid] = parent
            named = _names(f"{entry.path}/environ", variable)
            if mark in named or (not named and (group in known or session in known)):
                found.add(pid)
        except OSError:
            continue  # ended meanwhile
    own = os.getpid()
    found.discard(own)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found and pid != own}
        found |= more
        grown = bool(more)
    return found


def left_processes(named_as: str, stages: Mapping[str, int], by: str) -> dict[str, list[str]]:
    """The living processes of a run by what each names in its environment as its stage: value of the variable `by` →
    their programs. One that names none is of the stage in `stages` in whose process group, or session, it is.

    `named_as` is the run's directory, `stages` has the process group of each.
    """
    found: dict[str, list[str]] = {}
    variable, groups = f"{by}=".encode(), {group: name for name, group in stages.items()}
    for pid in find_members(named_as, groups):
        with contextlib.suppress(OSError):
            folder = f"{PROC}/{pid}"
            _, _, group, session = _stat(folder)
            named = _names(f"{folder}/environ", variable)
            name = os.fsdecode(named[0].removeprefix(variable)) if named else groups.get(group, groups.get(session))
            if name is not None:
                found.setdefault(name, []).append(os.fsdecode(_read(f"{folder}/comm").strip()))
    return found


def living_groups(groups: Iterable[int]) -> set[int]:
    """Those of these process groups and sessions that have a living process. The system may reuse the ids of the
    others, at the latest when their leader has been reaped."""
    known = set(groups)
    if not PROC.is_dir():
        return {group for group in known if _exists(group)}
    living = set[int]()
    for entry in os.scandir(PROC):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, group, session = _stat(entry.path)
                living |= known & {group, session} if state not in "ZX" else set()
    return living


def end_members(
    named_as: str, groups: Iterable[int] = (), within_s: float = _GONE_S, by: str = RUN_VARIABLE
) -> set[int]:
    """Kill all that is left of a run, or of one stage of it (see `find_members`), and wait until it is gone.

    Returns what is left then: nothing, but for processes that are stuck in the kernel.
    """
    deadline = time.monotonic() + within_s
    pause, shared = 0.001, set[str]()
    while members := find_members(named_as, groups, by):
        shared |= shared_memory(members)
        for pid in members:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return members
        time.sleep(pause)
        pause = min(0.05, 2 * pause)
    remove_shared(shared)
    return set()


def shared_memory(pids: Iterable[int]) -> set[str]:
    """The files of MPICH's shared memory that these processes use. Killed ranks leave them behind; no setting of
    MPICH moves them elsewhere, and their names do not contain their owner."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / "maps").read_bytes().splitlines():
                if _SHARED in line:
                    found.add(os.fsdecode(line.split(maxsplit=5)[-1].removesuffix(b" (deleted)")))
    return found


def remove_shared(paths: Iterable[str]) -> None:
    """Remove them, when their processes are gone."""
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink(missing_ok=True)


def _stat(folder: str) -> tuple[str, int, int, int]:
    """(state, parent, group, session) of the process that has this folder in /proc."""
    fields = stat_fields(_read(f"{folder}/stat"))
    return fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3])


def stat_fields(text: bytes) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; [] for an empty text."""
    # The command stands in parentheses and may hold anything; what follows the last one is plain.
    return text.rpartition(b")")[2].split()


def born_ticks(pid: int) -> int | None:
    """When a process was started, in clock ticks after the boot; 0 when it has ended and nobody has waited for it.

    None where nothing of it can be read: it is gone or hidden from other users, or there is no /proc.
    """
    try:
        fields = stat_fields(_read(f"{PROC}/{pid}/stat"))
    except OSError:
        return None
    return 0 if fields[0] in (b"Z", b"X") else int(fields[_BORN])


def _names(environment: str, variable: bytes) -> list[bytes]:
    """The run or stage that a process names, as it stands in its environment; [] also where that may not be read."""
    try:
        return [word for word in _read(environment).split(b"\0") if word.startswith(variable)]
    except PermissionError:
        return []


def _read(path: str) -> bytes:
    # All processes of the machine are looked at: a file object for each takes as long as to read it.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        text = b""
        while part := os.read(descriptor, _READ_BYTES):
            text += part
        return text
    finally:
        os.close(descriptor)


def _exists(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except OSError:
        return False
    return True


def end_run(run_dir: str, groups: Iterable[int]) -> None:
    """Kill all that is left of a run whose supervisor has been killed, remove its spools that are on this node, and
    write the verdict in its place."""
    end_members(run_dir, groups)
    remove_here(run_dir)
    reason = "the supervisor was killed; its guard ended the stages"
    write_verdict(run_dir, "failed", 1, reason, run_time(run_dir), "supervisor_killed")


def write_verdict(run_dir: str, state: str, exit_code: int, reason: str, t: float, cause: str = "") -> None:
    """Write the verdict of a run in place of its supervisor, and remove contact files. `t`: Unix seconds. Must be
    called when nobody works on the run any more. Raises OSError."""
    for contact in (*Path(run_dir, "streams").glob("*.sst"), *Path(run_dir, "streams").glob("*.tmp")):
        with contextlib.suppress(OSError):
            contact.unlink(missing_ok=True)
    event = {
        "event": "run_finished", "t": round(t, 6), "state": state, "exit_code": exit_code, "reason": reason,
        "stage": "", "cause": cause,
    }  # fmt: skip
    with Path(run_dir, EVENTS).open("ab") as file:
        # The supervisor may have died within a line.
        file.write((b"\n" if file.tell() else b"") + json.dumps(event).encode() + b"\n")
