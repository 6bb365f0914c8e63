"""The two files in a stage's folder between the run and `launch.mpmd_wrapper`, which starts each rank of the stage.

`launch.json`: what to start. The run writes it, the wrapper reads it. `exits.jsonl`: how each rank ended. The wrapper
appends to it, the run follows it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from workflow.formats.read_json import read_json
from workflow.formats.run_clock import steady_time
from workflow.formats.versions import check_version

LAUNCH_FILE = "launch.json"
EXITS_FILE = "exits.jsonl"
LAUNCH_FILE_VERSION = 2
_VERSION_KEY = "launch_file_version"


class RankStart(NamedTuple):
    """What one rank of a stage starts. `cores` are those of all ranks of the stage on a node; [] is no binding.

    `planned` are the cores that the plan uses on nodes, and `by_index` whether they may be counted among those that a
    process may use (`workflow.core_set`). `secrets`: variable → where its value is (`workflow.redaction`).
    """

    program: list[str]
    cwd: str
    env: dict[str, str]
    cores: list[int]
    planned: list[int]
    by_index: bool
    secrets: dict[str, str] = {}  # noqa: RUF012 - never changed

    def to_json(self) -> str:
        """The text of `launch.json`."""
        return json.dumps({_VERSION_KEY: LAUNCH_FILE_VERSION, **self._asdict()}, indent=2, ensure_ascii=False) + "\n"


class RankExit(NamedTuple):
    """How one rank ended: an exit code, or the number of the signal that ended it. `t` is Unix time in seconds."""

    t: float
    code: int | None
    signal: int | None


def read_start(folder: Path) -> RankStart:
    """What `launch.json` in this stage's folder has. Raises OSError, KeyError and ValueError."""
    path = folder / LAUNCH_FILE
    data: dict[str, Any] = read_json(path.read_bytes())
    check_version(data, _VERSION_KEY, LAUNCH_FILE_VERSION, path)
    return RankStart(**{name: data[name] for name in RankStart._fields})


def note_started(folder: Path, pid: int) -> None:
    """Append that a rank has started its program."""
    _append(folder / EXITS_FILE, {"started": pid})


def note_exit(folder: Path, code: int) -> None:
    """Append how a rank ended: `code` is negative for a signal, as of `os.waitstatus_to_exitcode`."""
    _append(folder / EXITS_FILE, {"code": code if code >= 0 else None, "signal": -code if code < 0 else None})


def to_exit(line: bytes | str) -> RankExit | None:
    """The exit that a line of `exits.jsonl` holds; None for a line about something else.

    Raises ValueError, TypeError or KeyError for a line that is not whole.
    """
    record = read_json(line)
    if "started" in record:
        return None
    return RankExit(float(record["t"]), record["code"], record["signal"])


def _append(path: Path, fields: dict[str, Any]) -> None:
    """One line in one write, because several ranks may append at the same time.

    An error of the file system is reported on stderr and not raised: the rank goes on, and the launcher's exit code
    remains. A line without its newline is no record.
    """
    line = json.dumps({"t": round(steady_time(), 6), **fields}) + "\n"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)  # on NFS the error of the write may come here
    except OSError as error:
        say(f"cannot write {path}: {error.strerror}")


def say(text: str) -> None:
    """Write a line to stderr, if that is possible: it may be a file on the same full disk."""
    with contextlib.suppress(OSError):
        os.write(2, f"wf: {text}\n".encode())
