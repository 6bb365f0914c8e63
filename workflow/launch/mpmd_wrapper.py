"""One rank of a stage that shares its launch line with others: `python -m workflow.launch.mpmd_wrapper STAGE_DIR`.

A launch line gives all its programs one directory, one environment and one output, and ends with one exit code. So each
rank starts through this program. It reads `launch.json` in the stage's folder, starts the stage's program with the
directory, environment and log files of the stage, waits for it, and records how it ended in `exits.jsonl`
(`formats.rank_files`). Only the standard library is imported: this runs once per rank.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from workflow.core_set import CoresMissingError, real_cores
from workflow.formats.rank_files import RankStart, note_exit, note_started, read_start, say
from workflow.interrupts import own_signals
from workflow.launch.rank_ends import NOT_STARTED
from workflow.redaction import read_secrets

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Start the program, and end as it ends."""
    own_signals()
    folder = Path(argv[0])
    start = read_start(folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Launchers send these to every process that a rank has started: the program decides.
        signal.signal(number, signal.SIG_IGN)
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _become(folder, start, parent)
    note_started(folder, child)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    note_exit(folder, code)
    return code if code >= 0 else 128 - code


def _become(folder: Path, start: RankStart, parent: int) -> None:
    """The child: never returns."""
    try:
        # Python ignores the last two.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if os.getppid() != parent:
            os._exit(1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        for descriptor, name in ((1, "stdout.log"), (2, "stderr.log")):
            os.dup2(os.open(folder / name, flags, 0o644), descriptor)
        _bind(start)
        os.chdir(start.cwd)
        program, secret = start.program, read_secrets(start.secrets)
        os.execvpe(program[0], program, {**os.environ, **start.env, **secret, "WF_STAGE": str(folder / "stage.json")})
    except CoresMissingError as error:
        say(f"cannot start {start.program[0]}: {error}")
        os._exit(NOT_STARTED)
    except OSError as error:
        say(f"cannot start {start.program[0]}: {error.strerror}")
        os._exit(NOT_STARTED)


def _bind(start: RankStart) -> None:
    """Raises CoresMissingError where the plan's cores may not be used here."""
    if start.cores and hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, real_cores(start.cores, start.planned, allowed, start.by_index))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
