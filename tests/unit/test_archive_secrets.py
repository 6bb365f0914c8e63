"""Files that hold the value of a secret variable are left out of an archive, however large they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from workflow.crate import archive_files
from workflow.crate.archive_files import ArchiveContents, add_files

SECRETS = {"hunter2-and-more": "A_TOKEN", "other-secret": "B_TOKEN", "caf\udce9-secret": "C_TOKEN"}


@pytest.mark.parametrize("begin", [0, 50, 63, 64, 100, 240])
def test_a_secret_is_found_anywhere_in_a_large_file(
    begin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_files, "_BLOCK", 64)
    text = bytearray(b"x" * 256)
    text[begin : begin + 16] = b"hunter2-and-more"
    (tmp_path / "holds").write_bytes(text)
    (tmp_path / "clean").write_bytes(text.replace(b"hunter2", b"hunter1"))
    contents = ArchiveContents()
    add_files(contents, [(name, tmp_path / name) for name in ("holds", "clean")], SECRETS, largest=None)
    assert [(each.path, each.why) for each in contents.left_out] == [
        (str(tmp_path / "holds"), "it holds the value of the variable A_TOKEN")
    ]
    (kept,) = contents.files
    assert kept.name == "clean" and kept.sha256 == hashlib.sha256((tmp_path / "clean").read_bytes()).hexdigest()


def test_without_secrets_a_file_is_read_for_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    contents = ArchiveContents()
    add_files(contents, [("empty", tmp_path / "empty")], {}, largest=None)
    assert contents.files[0].sha256 == hashlib.sha256(b"").hexdigest() and not contents.left_out
