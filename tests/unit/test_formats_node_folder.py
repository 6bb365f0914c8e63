"""The folder of a run on its node: made for one run, found by links, removed, and nothing else with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from workflow.formats import node_folder
from workflow.formats.guard_requests import REQUEST_FILE, GuardRequest, read_request, write_request
from workflow.formats.node_folder import (
    folder_name,
    folders_here,
    links,
    make_here,
    remove_here,
    remove_links,
)
from workflow.formats.sides import TMPDIR


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk of the node; its memory is beside it."""
    found = tmp_path / "disk"
    found.mkdir()
    (tmp_path / "memory").mkdir()
    monkeypatch.setenv("TMPDIR", str(found))
    monkeypatch.setattr(node_folder, "MEMORY", tmp_path / "memory")
    return found


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs/one"
    (folder / "streams").mkdir(parents=True)
    return folder


@pytest.fixture
def link(run_dir: Path) -> Path:
    return run_dir / "streams/field-spool.bp"


def test_what_is_written_by_the_link_is_on_the_node(disk: Path, run_dir: Path, link: Path) -> None:
    make_here(link, run_dir, TMPDIR)
    (link / "data.0").write_text("steps")
    (folder,) = disk.iterdir()
    assert folder.name == f"{folder_name(run_dir)}-{os.uname().nodename}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "others see nothing of it"
    assert (folder / "field-spool.bp/data.0").read_text() == "steps"
    assert links(run_dir) == {link: folder}
    make_here(link, run_dir, TMPDIR)
    assert (link / "data.0").exists(), "a second call changes nothing"


def test_a_link_to_another_node_is_replaced_and_one_to_steps_that_are_here_is_not(
    disk: Path, run_dir: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt before was on another node, or had another $TMPDIR."""
    link.symlink_to(disk / "gone" / folder_name(run_dir) / link.name)
    make_here(link, run_dir, TMPDIR)
    (link / "data.0").write_text("steps")
    assert [path.name for path in link.parent.iterdir()] == [link.name]
    (disk / "other").mkdir()
    monkeypatch.setenv("TMPDIR", str(disk / "other"))
    make_here(link, run_dir, TMPDIR)
    assert (link / "data.0").read_text() == "steps", "the next attempt appends to them"
    assert list((disk / "other").iterdir()) == []
    assert remove_here(run_dir) == [link]


def test_on_a_disk_that_nodes_share_each_has_its_own(
    run_dir: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = link.with_name("b-spool.bp")
    make_here(other, run_dir, TMPDIR)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="n2"))
    make_here(link, run_dir, TMPDIR)
    assert remove_here(run_dir) == [link]
    assert other.exists()
    assert links(run_dir).keys() == {other}


def test_a_link_to_the_memory_of_another_node_stays(run_dir: Path, link: Path) -> None:
    """The folder has the same path on each node, and this one has a spool, too."""
    make_here(link, run_dir, str(node_folder.MEMORY))
    other = link.with_name("b-spool.bp")
    other.symlink_to(link.readlink().with_name(other.name))
    assert remove_here(run_dir) == [link]
    assert other.is_symlink()


def test_a_file_at_the_path_of_the_link_stays(disk: Path, run_dir: Path, link: Path) -> None:
    link.mkdir()
    with pytest.raises(FileExistsError, match="field-spool"):
        make_here(link, run_dir, TMPDIR)
    assert list(disk.iterdir()) == []


def test_memory_is_another_place(disk: Path, run_dir: Path, link: Path) -> None:
    make_here(link, run_dir, str(node_folder.MEMORY))
    assert link.readlink().parent.parent == disk.parent / "memory"
    assert list(disk.iterdir()) == []


def test_without_tmpdir_it_is_in_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert node_folder.root_here(TMPDIR) == Path("/tmp")
    monkeypatch.setenv("TMPDIR", "")
    assert node_folder.root_here(TMPDIR) == Path("/tmp")


def test_a_folder_that_cannot_be_made_is_an_error(
    disk: Path, run_dir: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(disk / "missing"))
    with pytest.raises(FileNotFoundError):
        make_here(link, run_dir, TMPDIR)
    assert remove_here(run_dir) == [], "there was nothing"
    remove_links(run_dir)
    assert not link.is_symlink()


def test_all_of_the_run_is_removed_and_nothing_else(disk: Path, run_dir: Path, link: Path) -> None:
    other_run = run_dir.with_name("two")
    (other_run / "streams").mkdir(parents=True)
    make_here(other_run / "streams/field-spool.bp", other_run, TMPDIR)
    foreign = disk / "wf-of-somebody"
    foreign.mkdir()
    (run_dir / "streams/own.bp").symlink_to(foreign / "own.bp")
    for name, place in (("field-spool.bp", TMPDIR), ("b-spool.bp", str(node_folder.MEMORY))):
        make_here(link.with_name(name), run_dir, place)
    assert len(folders_here(run_dir)) == 2
    assert remove_here(run_dir) == [link.with_name("b-spool.bp"), link]
    assert folders_here(run_dir) == set()
    assert not link.is_symlink()
    assert foreign.exists() and (run_dir / "streams/own.bp").is_symlink()
    assert len(folders_here(other_run)) == 1


def test_it_is_found_without_its_run_directory(disk: Path, run_dir: Path, link: Path) -> None:
    make_here(link, run_dir, TMPDIR)
    link.unlink()
    link.parent.rmdir()
    run_dir.rmdir()
    remove_here(run_dir)
    assert list(disk.iterdir()) == []


def test_it_is_found_where_tmpdir_is_another_one(
    disk: Path, run_dir: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_here(link, run_dir, TMPDIR)
    monkeypatch.setenv("TMPDIR", str(disk / "of-the-guard"))
    remove_here(run_dir)
    assert list(disk.iterdir()) == []


def test_however_the_path_of_the_run_is_written_its_folder_is_the_same(disk: Path, run_dir: Path, link: Path) -> None:
    other = disk / "other-name"
    other.symlink_to(run_dir)
    assert folder_name(other) == folder_name(run_dir)
    assert folder_name(run_dir) != folder_name(run_dir.with_name("two"))
    make_here(other / "streams" / link.name, other, str(node_folder.MEMORY))
    assert links(run_dir).keys() == {link}


def test_the_folder_of_another_user_is_neither_used_nor_removed(
    disk: Path, run_dir: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = disk / f"{folder_name(run_dir)}-{os.uname().nodename}"
    taken.mkdir()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(FileExistsError, match="belongs to another user"):
        make_here(link, run_dir, TMPDIR)
    remove_here(run_dir)
    assert taken.exists()


def test_a_link_in_the_place_of_the_folder_is_not_followed(disk: Path, run_dir: Path, link: Path) -> None:
    """In a place where anybody may write, somebody lets it lead to a folder of this user."""
    treasure = disk.parent / "treasure"
    treasure.mkdir()
    (disk / f"{folder_name(run_dir)}-{os.uname().nodename}").symlink_to(treasure)
    with pytest.raises(FileExistsError):
        make_here(link, run_dir, TMPDIR)
    remove_here(run_dir)
    assert treasure.exists()


@pytest.fixture
def elsewhere(disk: Path, run_dir: Path, link: Path) -> Iterator[Path]:
    """A link whose folder is on another node."""
    link.symlink_to(disk / folder_name(run_dir) / link.name)
    yield link


def test_the_link_to_another_node_stays_until_its_guard_has_ended(elsewhere: Path, run_dir: Path) -> None:
    assert remove_here(run_dir) == []
    assert elsewhere.is_symlink()
    remove_links(run_dir)
    assert list((run_dir / "streams").iterdir()) == []
    assert [path.name for path in run_dir.iterdir()] == ["streams"]


def test_what_a_guard_is_asked(run_dir: Path) -> None:
    assert read_request(run_dir) == GuardRequest()
    for request in (
        GuardRequest(first={"a.bp": 12}),
        GuardRequest(("/r/stages/a/stage.json",), {"a.bp": 40, "b.bp": 1}, ended=True),
    ):
        write_request(run_dir, request)
        assert read_request(run_dir) == request


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"first": 3, "ended": 1}', '{"first": {"a": "x"}, "ended": false}'])
def test_a_damaged_request_asks_for_nothing(text: str, run_dir: Path) -> None:
    (run_dir / REQUEST_FILE).write_text(text)
    assert read_request(run_dir) == GuardRequest()
