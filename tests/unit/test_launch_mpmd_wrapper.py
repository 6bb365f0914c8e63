"""The process that starts one rank of a shared launch line, when its records cannot be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workflow.formats.rank_files import EXITS_FILE, LAUNCH_FILE, RankStart

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("full_stderr", [False, True])
def test_a_full_disk_leaves_the_program_alone(tmp_path: Path, full_stderr: bool) -> None:
    program = [sys.executable, "-c", "print('whole'); raise SystemExit(3)"]
    (tmp_path / LAUNCH_FILE).write_text(RankStart(program, str(tmp_path), {}, [], [], True).to_json())
    (tmp_path / EXITS_FILE).symlink_to(FULL)
    with (FULL if full_stderr else tmp_path / "said").open("wb") as stderr:
        command = [sys.executable, "-m", "workflow.launch.mpmd_wrapper", str(tmp_path)]
        ended = subprocess.run(command, stderr=stderr, check=False, timeout=60)
    assert ended.returncode == 3
    assert (tmp_path / "stdout.log").read_text() == "whole\n"
    if not full_stderr:
        line = f"wf: cannot write {tmp_path / EXITS_FILE}: No space left on device\n"
        assert (tmp_path / "said").read_text() == 2 * line
