"""The command that installs an extra: it works for how this `wf` was installed."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from workflow import installation

ROOT = Path(__file__).parents[2]


class Distribution:
    """A package as pip records it."""

    def __init__(self, record: str | None) -> None:
        self.record = record

    def read_text(self, name: str) -> str | None:
        """Where it was installed from (PEP 610)."""
        assert name == "direct_url.json"
        return self.record


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, record: str | None) -> None:
    """Let `wf` be installed in a folder that is no clone, with this record."""

    def find(name: str) -> Distribution:
        assert name == "wf-hpc"
        return Distribution(record)

    monkeypatch.setattr(installation, "_CLONE", folder)
    monkeypatch.setattr("importlib.metadata.distribution", find)


def test_a_clone_is_named_by_its_folder() -> None:
    words = shlex.split(installation.install_command("laptop"))
    assert words == [sys.executable, "-m", "pip", "install", "--editable", f"{ROOT}[laptop]"]


@pytest.mark.parametrize("there", [True, False])
def test_a_wheel_is_named_even_when_it_is_gone(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "my wheels" / "wf_hpc-0.1.0-py3-none-any.whl"
    if there:
        wheel.parent.mkdir()
        wheel.touch()
    record = json.dumps({"url": wheel.as_uri(), "archive_info": {}})
    install(monkeypatch, tmp_path, record)
    assert shlex.split(installation.install_command("openpmd"))[3:] == ["install", f"{wheel}[openpmd]"]


@pytest.mark.parametrize("record", [None, "", "{}", "not json", json.dumps({"url": "https://host.example/wf.whl"})])
def test_anything_else_comes_from_the_index(
    record: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, record)
    assert shlex.split(installation.install_command("laptop"))[3:] == ["install", "wf-hpc[laptop]"]


def test_without_a_record_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`wf` on PYTHONPATH alone."""

    def missing(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "_CLONE", tmp_path)
    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert installation.install_command("laptop").endswith("install 'wf-hpc[laptop]'")
