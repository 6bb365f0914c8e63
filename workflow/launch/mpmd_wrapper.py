"""One rank of a stage that shares its launch line with others: `python -m workflow.launch.mpmd_wrapper STAGE_DIR`.

A launch line gives all its programs one directory, one environment and one output, and ends with one exit code. So each
rank starts through this: it reads `launch.json` in the stage's directory, starts the program with what is the stage's
own, waits for it, and notes how it ended in `exits.jsonl`. Nothing but the standard library: it runs once per rank.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

LAUNCH_FILE = "launch.json"
EXITS_FILE = "exits.jsonl"
NOT_STARTED = 127
_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Start the program, and end as it ends."""
    folder = Path(argv[0])
    told: dict[str, Any] = json.loads((folder / LAUNCH_FILE).read_text(encoding="utf-8"))
    _bind(told["cores"])
    for number in (signal.SIGINT, signal.SIGTERM):
        # Launchers send them to all that a rank has started: the program decides.
        signal.signal(number, signal.SIG_IGN)
    death = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        if death is not None:
            death(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _become(folder, told, parent)
    _note(folder / EXITS_FILE, {"started": child})
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    _note(folder / EXITS_FILE, {"code": code if code >= 0 else None, "signal": -code if code < 0 else None})
    return code if code >= 0 else 128 - code


def _become(folder: Path, told: dict[str, Any], parent: int) -> None:
    """The child: never returns."""
    program: list[str] = told["program"]
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if os.getppid() != parent:
            os._exit(1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        for descriptor, name in ((1, "stdout.log"), (2, "stderr.log")):
            os.dup2(os.open(folder / name, flags, 0o644), descriptor)
        os.chdir(told["cwd"])
        os.execvpe(program[0], program, {**os.environ, **told["env"], "WF_STAGE": str(folder / "stage.json")})
    except OSError as error:
        sys.stderr.write(f"wf: cannot start {program[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


def _bind(cores: list[int]) -> None:
    if cores and hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        chosen = {allowed[core] for core in cores if core < len(allowed)}
        if chosen:
            os.sched_setaffinity(0, chosen)


def _note(path: Path, fields: dict[str, Any]) -> None:
    """One line in one write, which several ranks may do at once."""
    line = json.dumps({"t": round(time.time(), 6), **fields}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.write(file, line.encode())
    os.close(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
