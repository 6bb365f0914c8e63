"""Engine and site files of one's own: where they are found, and the how-to about them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.errors import WfError
from workflow.spec.shipped import SHIPPED, config_dirs, find_config

PAGE = Path(__file__).parents[2] / "docs/how-to/your-own-machine.md"


def test_the_strongest_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path / "group"))
    (tmp_path / "group/sites").mkdir(parents=True)
    (tmp_path / ".config/wf/sites").mkdir(parents=True)
    folders = [tmp_path / "group", tmp_path / ".config/wf", SHIPPED / "configs"]
    assert config_dirs("sites") == [folder / "sites" for folder in folders]
    for folder in reversed(folders[:2]):
        (folder / "sites/local.yaml").write_text("")
        assert find_config("sites", "local") == folder / "sites/local.yaml"


def test_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))
    assert config_dirs("sites") == [tmp_path / ".config/wf/sites", SHIPPED / "configs/sites"]
    assert os.environ["HOME"] == str(tmp_path), "what wf starts has it, too"


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path / "missing"))
    with pytest.raises(WfError, match=re.escape(f"WF_CONFIGS={tmp_path}/missing: there is no such folder")):
        config_dirs("engines")


def test_the_how_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By path, then by name from the user's folder, with the preset of the page."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    site, preset = (
        next(block for block in blocks if block.startswith(f"# fragment: {name}")) for name in ("my-", "sst-")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    run = CliRunner().invoke
    assert run(wf, ["init", "first"]).exit_code == 0
    (tmp_path / "my-machine.yaml").write_text(site)
    by_path = run(wf, ["plan", "--wide", "first/pipeline.yaml", "--site", "./my-machine.yaml"])
    assert by_path.exit_code == 0, by_path.output
    assert "srun --ntasks=1 --nodes=1" in by_path.output
    for folder, name, text in (("sites", "my-machine", site), ("engines", "sst-push", preset)):
        (tmp_path / "config/wf" / folder).mkdir(parents=True)
        (tmp_path / "config/wf" / folder / f"{name}.yaml").write_text(text)
    by_name = run(wf, ["plan", "--wide", "first/pipeline.yaml", "--site", "my-machine", "--via", "sst-push"])
    assert by_name.exit_code == 0, by_name.output
    assert "DataTransport=WAN" in by_name.output
    assert "SpeculativePreloadMode=On" in by_name.output
