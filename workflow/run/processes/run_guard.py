"""The guard of a run, a process of its own: when the supervisor dies, all processes of the run end.

It is a shell that waits until its standard input closes: a shell starts in a tenth of the time of Python, and each run
starts one beside its first stages. Unless the supervisor has announced its end before, the shell becomes this
program, which kills all processes of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

DONE = "done"  # the supervisor's announcement
_WAIT = f"""
seen=
while read -r word; do
  [ "$word" = {DONE} ] && exit
  seen="$seen $word"
done
exec "$@" $seen
"""


def guard_command(run_dir: Path) -> list[str]:
    """The command line of the guard. It reads the process groups of stages line by line, with a minus when they have
    ended."""
    return ["/bin/sh", "-c", _WAIT, "sh", sys.executable, "-I", "-S", __file__, str(run_dir)]


def living(words: Iterable[str]) -> set[int]:
    """The process groups that were announced and have not ended."""
    groups = set[int]()
    for number in map(int, words):
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    return groups


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # where the package is
    from workflow.run.processes.process_reaper import end_run

    end_run(sys.argv[1], living(sys.argv[2:]))
