"""Which finished repetitions still belong to a campaign, and what is said of those that do not any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.campaigns import TIMEOUT_S, CampaignFolder

SCRIPT = "import os; open(os.environ['FOLDER'] + '/ran.txt', 'a').write('1' + chr(10))"
LINKS = ("python", "python3")


@pytest.fixture
def of_program(tmp_path: Path) -> CampaignFolder:
    """A campaign whose stage is a script of the user's."""
    campaign = CampaignFolder(tmp_path, values=1, repetitions=3)
    write_program(campaign, "#!/bin/sh\necho 1 >> $FOLDER/ran.txt\n")
    write_command(campaign, "[./program.sh]")
    campaign.wf("run", "-q")
    return campaign


def write_program(campaign: CampaignFolder, text: str) -> None:
    program = campaign.folder / "program.sh"
    program.write_text(text)
    program.chmod(0o755)


def write_command(campaign: CampaignFolder, command: str) -> None:
    pipeline = (campaign.folder / "pipeline.yaml").read_text()
    head, tail = pipeline.split("    command:")[0], pipeline.split("\n    env:")[1]
    (campaign.folder / "pipeline.yaml").write_text(f"{head}    command: {command}\n    env:{tail}")


def linked(folder: Path) -> tuple[Path, ...]:
    """One Python under two names, as in a virtual environment."""
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "venv/pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    found = tuple(folder / "venv/bin" / name for name in LINKS)
    for path in found:
        path.symlink_to(Path(sys.executable).resolve())
    return found


def test_the_name_of_the_link_to_wf_s_python_changes_nothing(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=2)
    write_command(campaign, f'["${{{{ wf.python }}}}", -c, "{SCRIPT}"]')
    packages = os.pathsep.join(each for each in sys.path if each)
    for path in linked(tmp_path):
        done = subprocess.run(
            [str(path), "-m", "workflow.cli", "campaign", "run", "campaign.yaml", "-q"], cwd=tmp_path,
            env={**campaign.environment, "PYTHONPATH": packages}, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert len(campaign.ran()) == 2, "the same Python under another name was taken for another program"


def test_the_name_of_the_link_to_another_python_changes_nothing(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=2)
    for path in linked(tmp_path):
        write_command(campaign, f'[./{path.relative_to(tmp_path)}, -c, "{SCRIPT}"]')
        said = campaign.wf("run", "-q")
        assert "no longer" not in said
    assert len(campaign.ran()) == 2, "the same Python under another name was taken for another program"


@pytest.mark.parametrize("verb", ["plan", "status", "report"])
def test_a_changed_program_is_told_before_it_is_measured(of_program: CampaignFolder, verb: str) -> None:
    write_program(of_program, "#!/bin/sh\n# changed\necho 1 >> $FOLDER/ran.txt\n")
    said = " ".join(of_program.wf(verb).split())
    assert "3 finished repetitions no longer match this campaign: program.sh has different content (" in said
    assert ("the figures here belong to the old content" in said) == (verb != "plan")


@pytest.mark.parametrize("verb", ["plan", "status", "report"])
def test_a_changed_program_is_told_after_it_was_measured(of_program: CampaignFolder, verb: str) -> None:
    write_program(of_program, "#!/bin/sh\n# changed\necho 1 >> $FOLDER/ran.txt\n")
    of_program.wf("run", "-q")
    said = " ".join(of_program.wf(verb).split())
    assert "3 finished repetitions no longer match this campaign: program.sh has different content (" in said
    assert "figures here" not in said


@pytest.mark.parametrize("verb", ["plan", "status", "report"])
def test_a_changed_value_is_told_with_both(of_program: CampaignFolder, verb: str) -> None:
    pipeline = of_program.folder / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("{VALUE: 0,", "{VALUE: 0, LEVEL: 3,"))
    said = " ".join(of_program.wf(verb).split())
    assert "3 finished repetitions no longer match this campaign: stages.one.env.LEVEL: none → 3" in said


@pytest.mark.parametrize("verb", ["plan", "status", "report"])
def test_what_changes_no_key_is_not_told(of_program: CampaignFolder, verb: str) -> None:
    pipeline = of_program.folder / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text() + "# a comment\n")
    assert "no longer" not in of_program.wf(verb)


def test_a_value_that_was_taken_out_is_told(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=2)
    campaign.wf("run", "-q")
    campaign.write(values=1, repetitions=2)
    said = " ".join(campaign.wf("plan").split())
    assert "2 finished repetitions no longer match this campaign: their values are no longer in the file" in said


def test_a_ledger_of_an_older_wf_is_told(of_program: CampaignFolder) -> None:
    ledger = of_program.directory / "ledger.jsonl"
    lines = ledger.read_text().split("\n")
    ledger.write_text("\n".join(line for line in lines if '"event": "trial"' not in line))
    write_program(of_program, "#!/bin/sh\n# changed\necho 1 >> $FOLDER/ran.txt\n")
    said = " ".join(of_program.wf("plan").split())
    assert "3 finished repetitions no longer match this campaign: the wf that ran them did not record" in said
