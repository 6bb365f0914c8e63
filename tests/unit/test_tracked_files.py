"""What `make lint` refuses to have in git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.tracked_files import FIXTURES, LARGEST, problem, tracked

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n\0\0\0"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("README.md", "größer ≥\n".encode(), ""),
        ("empty.txt", b"", ""),
        ("docs/pictures/look.png", PNG, ""),
        ("tests/specs/bad/nul-byte.yaml", b"a: \0\n", ""),
        ("core", b"\x7fELF\x02\x01\x01\0", "is neither text nor a picture"),
        ("notes.txt", "größer".encode("latin-1"), "is neither text nor a picture"),
        ("core.png", b"\x7fELF\x02\x01\x01\0", "is neither text nor a picture"),
        ("picture", PNG, "is neither text nor a picture"),
        ("long.json", b"1" * (LARGEST + 1), "is larger than 512 kB (512 kB)"),
        ("large.png", PNG + bytes(2_000_000), "is larger than 512 kB (2000 kB)"),
    ],
)
def test_what_may_be_tracked(name: str, content: bytes, why: str) -> None:
    said = problem(name, content)
    assert said.startswith(why) if why else not said


def test_what_git_tracks_is_found(tmp_path: Path) -> None:
    assert tracked(tmp_path) == [], "no checkout"
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name in ("core", "removed", "own notes"):
        (tmp_path / name).write_text(name)
    subprocess.run(["git", "-C", tmp_path, "add", "core", "removed"], check=True)
    (tmp_path / "removed").unlink()
    assert tracked(tmp_path) == ["core"]


def test_every_listed_fixture_needs_its_place_in_the_list() -> None:
    assert not [name for name in FIXTURES if not problem(f"elsewhere/{name}", (ROOT / name).read_bytes())]
