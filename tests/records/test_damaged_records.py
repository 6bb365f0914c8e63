"""Thousands of damaged records of all formats: an answer or a message, never a traceback, a signal or a hang.

The number of a case is its seed: `python -m tests.records.damage WORKSPACE CASE 1` runs it again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.records.workspace import ROOT, make_workspace
from tests.support.long_tables import long_table

CASES, AT_ONCE = 20_000, 50
# `tests.records.damage` ends a case that hangs.
TIMEOUT_S = 1800


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("records"))


@pytest.mark.parametrize("first", long_table(range(0, CASES, AT_ONCE), sample=4))
def test_a_damaged_record_is_read_or_refused(first: int, workspace: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(workspace, tmp_path / "copied", symlinks=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.records.damage", str(copied), str(first), str(AT_ONCE)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}, capture_output=True, text=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{(copied / 'case').read_text()}: ended by {done.returncode}\n{done.stderr[-3000:]}"
    found = [json.loads(line) for line in done.stdout.split("\n") if line]
    wrong = [each for each in found if "wrong" in each]
    assert not wrong, "\n".join(map(str, wrong))
