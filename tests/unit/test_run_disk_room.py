"""Whether the disk of a run directory is full."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from workflow.run.observe.disk_room import full_disk_note, full_place_text

NOTE = "no space is left on the disk of the run directory"


@pytest.mark.parametrize(
    ("user", "free", "available", "note"),
    [(0, 15, 0, NOTE), (0, 16, 0, ""), (7, 900, 15, NOTE), (7, 900, 16, "")],
)
def test_too_little_room_for_a_message_is_a_full_disk(
    user: int, free: int, available: int, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of 4 KiB; some may be kept back for root."""
    found = SimpleNamespace(f_bfree=free, f_bavail=available, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: found)  # noqa: ARG005
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert full_disk_note(tmp_path) == note


def test_the_place_of_a_spool_on_a_node_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "memory/wf-0-12/field-spool.bp", tmp_path / "field-spool.bp"
    link.symlink_to(file)
    what = full_place_text(link, "field-spool")
    assert what == f"{tmp_path}/memory, which holds field-spool"
    assert full_disk_note(link, what) == "", "it is on another node"
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=0, f_bavail=0, f_frsize=4096))  # noqa: ARG005
    assert full_disk_note(link, what) == f"no space is left on {what}"


def test_what_cannot_be_asked_is_not_full(tmp_path: Path) -> None:
    assert full_disk_note(tmp_path / "missing") == ""
