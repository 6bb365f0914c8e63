"""Which processes are ranks, however late they execute their programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from workflow.formats.run_variables import RANK_NAME_VARIABLE, RUN_VARIABLE, STAGE_VARIABLE
from workflow.run.guard.rank_processes import RECHECK_S, RankFinder

# Says that it is there, and becomes rank 1 when it is told to.
LATE = "import os, sys; print(flush=True); input(); os.environ['R'] = '1'; os.execvp('cat', ['cat'])"


def test_a_process_that_becomes_a_rank_late_is_found_and_then_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {RUN_VARIABLE: str(tmp_path), STAGE_VARIABLE: str(tmp_path / "stages/md/x"), RANK_NAME_VARIABLE: "R"}
    late = subprocess.Popen(
        [sys.executable, "-c", LATE], env={**os.environ, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert late.stdin is not None and late.stdout is not None
    try:
        late.stdout.readline()
        finder = RankFinder(str(tmp_path))
        for _ in range(4):
            assert finder.find() == [], "it has the environment of its parent yet"
        late.stdin.write(b"\n")
        late.stdin.flush()
        wait_until(lambda: [each[:3] for each in finder.find()] == [("md", 1, late.pid)], "the rank is found")

        started = time.monotonic()
        monkeypatch.setattr("time.monotonic", lambda: started + RECHECK_S)
        assert len(finder.find()) == 1
        monkeypatch.setattr(RankFinder, "_rank", lambda *_: pytest.fail("it was looked at again"))
        monkeypatch.setattr("os.scandir", lambda _: [Entry(late.pid)])
        assert len(finder.find()) == 1
    finally:
        late.kill()
        late.communicate()


class Entry:
    """One process of /proc alone: those that others start meanwhile are looked at."""

    def __init__(self, pid: int) -> None:
        self.name, self.path = str(pid), f"/proc/{pid}"

    def stat(self) -> os.stat_result:
        return Path(self.path).stat()
