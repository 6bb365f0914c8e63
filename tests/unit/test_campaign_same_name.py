"""Two campaign files of one name in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.errors import RunError

CAMPAIGN = "wf: 1\ncampaign: test\npipeline: p.yaml\nmatrix: {stages.a.env.X: [VALUES]}\nwarmup: 0\nrepetitions: 1\n"
CAMPAIGN += "metrics: {time: run.wall_s}\n"


def test_the_second_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("wf: 1\nname: p\nstages: {a: {command: ['true']}}\n")
    Path("one.yaml").write_text(CAMPAIGN.replace("VALUES", "a"))
    Path("two.yaml").write_text(CAMPAIGN.replace("VALUES", "b"))
    said = CliRunner().invoke(wf, ["campaign", "run", "one.yaml", "--quiet"])
    assert said.exit_code == 0, said.output
    schedule = Path("campaigns/test/schedule.json").read_bytes()
    for verb in ("run", "plan", "report", "status"):
        ran = CliRunner().invoke(wf, ["campaign", verb, "two.yaml"])
        assert isinstance(ran.exception, RunError), ran.output
        assert str(ran.exception) == (
            "campaigns/test is of one.yaml, not of two.yaml\n"
            "  give one of the two campaigns another name, or a directory of its own: --dir PATH"
        )
    assert Path("campaigns/test/schedule.json").read_bytes() == schedule
    # Each other way goes on: a directory of its own, the first one again, a copy of it, and a file that has moved.
    for line in (["two.yaml", "--dir", "second"], ["one.yaml"]):
        assert CliRunner().invoke(wf, ["campaign", "run", *line, "--quiet"]).exit_code == 0
    Path("copy.yaml").write_bytes(Path("one.yaml").read_bytes())
    assert CliRunner().invoke(wf, ["campaign", "report", "copy.yaml"]).exit_code == 0
    Path("one.yaml").unlink()
    Path("two.yaml").write_text(CAMPAIGN.replace("VALUES", "a, b"))
    assert CliRunner().invoke(wf, ["campaign", "run", "two.yaml", "--quiet"]).exit_code == 0
