"""The generated reference pages are those that the code would write now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_reference_is_up_to_date() -> None:
    answer = subprocess.run([sys.executable, "tools/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
