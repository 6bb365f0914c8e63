"""CI's Debian: where none can be made, the script says why. That one is made shows CI itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci/minimal-root"


def test_without_rights_it_says_so() -> None:
    nobody = ["setpriv", "--reuid=65534"] if os.geteuid() == 0 else []
    said = subprocess.run(
        [*nobody, "bash", "-c", SCRIPT.read_text(), str(SCRIPT), "--check"], capture_output=True, text=True
    )
    assert (said.returncode, said.stdout) == (3, "")
    assert said.stderr == "no minimal Debian here: making one needs root\n"


def test_no_address_is_written_into_it() -> None:
    """Mirrors and certificates are those of the machine that runs it."""
    assert not re.findall(r"https?://|[a-z0-9-]+\.(?:org|com|net|internal)\b", SCRIPT.read_text())
