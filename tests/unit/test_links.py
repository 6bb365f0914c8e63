"""File systems without hard links, or without symbolic ones."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.replace_file import create_whole
from workflow.run.control.lease import read_lease

PIPELINE = "wf: 1\nname: one\nstages: {a: {command: ['true']}}\n"


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture(params=["hard", "symbolic", "any"])
def without_links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kind = str(request.param)
    if kind != "symbolic":
        monkeypatch.setattr(os, "link", refuse)
    if kind != "hard":
        monkeypatch.setattr(os, "symlink", refuse)
        monkeypatch.setattr(Path, "symlink_to", refuse)
    return kind


def test_runs_work(without_links: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of two is found without `runs/latest`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    for name in ("first", "second"):
        (tmp_path / "p.yaml").write_text(PIPELINE.replace("one", name))
        ran = CliRunner().invoke(wf, ["run", "p.yaml", "--quiet"])
        assert ran.exit_code == 0, ran.output
    status = CliRunner().invoke(wf, ["status"])
    assert (status.exit_code, status.output.startswith("second-")) == (0, True), status.output
    run = next((tmp_path / "runs").glob("second-*"))
    assert read_lease(run) is not None
    assert (tmp_path / "runs/latest").is_symlink() == (without_links == "hard")
    again = CliRunner().invoke(wf, ["run", "p.yaml", "--run-dir", str(run)])
    assert "exists and is not an empty directory" in str(again.exception)


@pytest.mark.parametrize("has_links", [True, False])
def test_of_several_writers_one_makes_the_file(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    made: list[int] = []
    together = threading.Barrier(8)

    def make(number: int) -> None:
        together.wait(60)
        try:
            create_whole(tmp_path / "lease.json", f"{number}".encode() * 1000)
        except FileExistsError:
            return
        made.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 1
    assert (tmp_path / "lease.json").read_text() == f"{made[0]}" * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["lease.json"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_whole(tmp_path / "none/lease.json", b"x")
