"""The guard of a run, a process of its own: when the supervisor dies, all processes of the run end.

It waits until its standard input closes. Unless the supervisor has announced its end before, the guard then kills all
processes of the run. Each run starts one beside its first stages, so that it imports almost nothing until then: it
starts in the time of a bare interpreter, a third of what it takes with `process_reaper`.
"""

from __future__ import annotations

import os
import sys

DONE = b"done"  # the supervisor's announcement


def guard(run_dir: str) -> None:
    """Wait for the end of the supervisor; if that was not announced, end the run. Process groups of stages arrive line
    by line, with a minus when they have ended."""
    data = b""
    while chunk := os.read(0, 4096):
        data += chunk
    words = data.split()
    if DONE in words:
        os._exit(0)  # the supervisor waits for it: without tidying up the interpreter
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # where the package is
    from workflow.run.processes.process_reaper import end_run

    groups = set[int]()
    for number in map(int, words):
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    end_run(run_dir, groups)


if __name__ == "__main__":
    guard(sys.argv[1])
