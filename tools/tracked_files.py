"""Refuses files that do not belong into git: neither text nor a picture nor a listed fixture, or too large.

    python tools/tracked_files.py

`git add .` takes whatever a test has left in the folder, a core dump of 7 MB for one. `make lint` finds it before
everybody has to clone it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LARGEST = 512_000  # bytes
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".jpg": b"\xff\xd8\xff"}

# Read by tests, and neither text nor picture.
FIXTURES = {
    "tests/specs/bad/not-utf8.yaml",  # pipelines that are refused for their bytes
    "tests/specs/bad/nul-byte.yaml",
    "tests/specs/bad/utf16.yaml",
}


def problem(name: str, content: bytes) -> str:
    """Why a file of this name and content may not be tracked; empty if it may."""
    if len(content) > LARGEST:
        return f"is larger than {LARGEST // 1000} kB ({len(content) // 1000} kB)"
    signature = SIGNATURES.get(Path(name).suffix)
    if name in FIXTURES or (signature and content.startswith(signature)) or is_text(content):
        return ""
    return "is neither text nor a picture (.png, .jpg) nor listed in FIXTURES of tools/tracked_files.py"


def is_text(content: bytes) -> bool:
    """UTF-8 without NUL bytes."""
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


def tracked(root: Path) -> list[str]:
    """The names of the files that git tracks, and that are there; of an unpacked archive none."""
    if not (root / ".git").exists():
        return []
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (root / name).is_file()]


def main() -> None:
    """Print one line for each file that is refused."""
    root = Path(__file__).parents[1]
    refused = [f"{name}: {why}" for name in tracked(root) if (why := problem(name, (root / name).read_bytes()))]
    if refused:
        sys.exit("\n".join([*refused, "Remove it from git: git rm --cached FILE"]))


if __name__ == "__main__":
    main()
