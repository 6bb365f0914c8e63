"""`wf campaign gate`: two versions of a program are measured in turns, and the new one passes unless it is worse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.campaigns import ROOT, TIMEOUT_S, CampaignFolder
from workflow.api.gates import GateVersion, gate_campaign
from workflow.campaign.ledger import read_history
from workflow.errors import RunError, WfError

REPETITIONS = 8
# The program says itself what it took: the clock of a busy machine decides nothing. Each run on this machine takes
# longer than the one before, whoever it is of.
PIPELINE = """wf: 1
name: gate
oversubscribe: true
stages:
  one: {command: [./program.sh], env: {FOLDER: "${{ pipeline.dir }}/..", FACTOR: 1}}
"""
PROGRAM = """#!/bin/sh
count=$(cat "$FOLDER/ran.txt" 2> /dev/null | wc -l)
echo "{version}" >> "$FOLDER/ran.txt"
awk "BEGIN {{ printf \\"{{\\\\\\"time\\\\\\": %.6f}}\\", {factor} * $FACTOR * (1 + {drift} * $count) }}" > figures.json
"""
CAMPAIGN = """wf: 1
campaign: gate
pipeline: pipeline.yaml
repetitions: 8
warmup: 0
metrics: {time: {of: stages.one.figures.time, better: less, unit: s}}
"""
Wf = Callable[..., str]


def checkout(folder: Path, name: str, *, factor: float = 1.0, drift: float = 0.02) -> Path:
    """A checkout of a program that takes `factor` times as long, and says that it was run."""
    (folder / name).mkdir()
    (folder / name / "pipeline.yaml").write_text(PIPELINE)
    (folder / name / "campaign.yaml").write_text(CAMPAIGN)
    program = folder / name / "program.sh"
    program.write_text(PROGRAM.format(version=name, factor=factor, drift=drift))
    program.chmod(0o755)
    return folder / name


@pytest.fixture
def wf(tmp_path: Path) -> Wf:
    """`wf campaign` with these words, in the folder of both checkouts; returns what it printed."""

    def call(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "workflow.cli", "campaign", *words], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "NO_COLOR": "1"}, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return call


def ran(folder: Path) -> list[str]:
    return (folder / "ran.txt").read_text().split()


def test_the_same_version_is_never_worse_although_the_machine_gets_slower(tmp_path: Path, wf: Wf) -> None:
    """Six times, each in another order: one after the other the same two would differ by a quarter."""
    checkout(tmp_path, "old")
    checkout(tmp_path, "new")
    for seed in range(6):
        more = ["-q", "--dir", f"gate{seed}", "--set", f"order.seed={seed}"]
        said = wf("gate", "old/campaign.yaml", "new/campaign.yaml", *more)
        assert "gate passed: 1 ratio, none regressed" in said
    turns = [sorted(ran(tmp_path)[start : start + 2]) for start in range(0, 6 * 2 * REPETITIONS, 2)]
    assert turns == [["new", "old"]] * (6 * REPETITIONS), "they did not run in turns"


def test_one_after_the_other_the_same_version_is_worse(tmp_path: Path, wf: Wf) -> None:
    """What the gate is for: this comparison blames the program for the machine."""
    for name in ("old", "new"):
        checkout(tmp_path, name)
        wf("run", f"{name}/campaign.yaml", "-q", "--dir", f"measured-{name}")
    wf("compare", "measured-old", "measured-new", "--gate", code=4)


def test_a_version_that_is_worse_fails_the_gate(tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "old", drift=0.001)
    checkout(tmp_path, "new", drift=0.001, factor=1.5)
    said = wf("gate", "old", "new/campaign.yaml", "--junit", "g.xml", code=4)
    assert "slower" in said and "gate failed: 1 of 1 case" in said
    suite = ElementTree.parse(tmp_path / "g.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    wf("gate", "old/campaign.yaml", "new/campaign.yaml", "-q", "--tolerance", "80%")
    assert len(ran(tmp_path)) == 2 * REPETITIONS, "what was measured in turns ran again"
    assert "8/8" in wf("status", "gate-gate") and "version" in wf("report", "gate-gate")
    assert "holds the records of a gate" in wf("run", "gate-gate", code=2)


def test_a_version_that_fails_when_it_is_measured_again_passes_nothing(tmp_path: Path, wf: Wf) -> None:
    """It succeeded before, beside another new version. When it is repaired, it runs again."""
    breakable = PROGRAM.replace("count=", '[ ! -e "$FOLDER/broken" ] || exit 3\ncount=')
    for name, factor in (("old", 1.0), ("new", 1.0), ("new", 3.0)):
        if factor == 1.0:
            checkout(tmp_path, name)
        (tmp_path / name / "program.sh").write_text(breakable.format(version=name, factor=factor, drift=0.001))
        if (name, factor) == ("new", 1.0):
            assert "gate passed" in wf("gate", "old", "new/campaign.yaml", "-q")
    # What it meets on the machine is no part of its key.
    (tmp_path / "broken").touch()
    said = wf("gate", "old", "new/campaign.yaml", "-q", code=1)
    assert "gate passed" not in said and "the same command runs the failed repetitions again" in said
    (tmp_path / "broken").unlink()
    assert "gate failed" in wf("gate", "old", "new/campaign.yaml", "-q", code=4)


def test_one_version_twice_is_said_before_anything_runs(tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "old")
    checkout(tmp_path, "new", factor=1.5)
    same = "warning: both versions have the same content"
    # Nothing runs in a folder that is no campaign's: what is printed was said before.
    words = ("--dir", "old")
    for more in (["old/campaign.yaml"], ["--new-set", "repetitions=9"], ["--old-python", sys.executable]):
        said = wf("gate", "old/campaign.yaml", *more, *words, code=2)
        assert same in said and "--new-set" in said and "is not a campaign's directory" in said
    for more in (["new/campaign.yaml"], ["--new-set", "set.stages.one.env.FACTOR=2"]):
        assert same not in wf("gate", "old/campaign.yaml", *more, *words, code=2)
    said = wf("gate", "old/campaign.yaml", code=2)
    assert "NEW is missing" in said and "`wf campaign gate OLD old/campaign.yaml`" in said and "--new-set" in said
    assert not (tmp_path / "ran.txt").exists()


def test_a_gate_that_needs_scipy_does_not_start_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (GateVersion(checkout(tmp_path, name) / "campaign.yaml") for name in ("old", "new"))
    for name in ("scipy", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RunError, match="is not a campaign's directory"):  # which comes later: it needs none of both
        gate_campaign(old, new, tmp_path)
    few = ["repetitions=5"]
    with pytest.raises(WfError, match=r"versions cannot be compared here: scipy is missing\n.*\[campaign\]"):
        gate_campaign(replace(old, sets=few), replace(new, sets=few), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        ("old/campaign.yaml", "new/campain.yaml", "new/campain.yaml: no such file", "`new/campaign.yaml`"),
        ("old/else.yaml", "new/campaign.yaml", "old/else.yaml: no such file", "first-campaign.md"),
        ("old", "new/gone.yaml", "new/gone.yaml: no such file", "first-campaign.md"),
        ("empty", "new/campaign.yaml", "empty/campaign.yaml: no such file", "first-campaign.md"),
        ("gone", "new/campaign.yaml", "gone: no such file", "first-campaign.md"),
        ("old", "new", "new: is a directory, not a file", "name the file in it"),
    ],
)
def test_the_file_that_is_missing_is_named(old: str, new: str, said: str, hint: str, tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "old")
    checkout(tmp_path, "new")
    (tmp_path / "empty").mkdir()
    found = wf("gate", old, new, code=2)
    assert said in found and hint in " ".join(found.split()) and "wf init" not in found


def test_a_folder_stands_for_the_same_file_in_another_checkout(tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "new", factor=1.5, drift=0.001)
    (tmp_path / "base").mkdir()
    checkout(tmp_path / "base", "new", drift=0.001)
    assert "slower" in wf("gate", "base", "new/campaign.yaml", "-q", code=4)


def test_a_new_version_is_measured_beside_the_old_one_again(tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "old")
    new = checkout(tmp_path, "new")
    wf("gate", "old/campaign.yaml", "new/campaign.yaml", "-q")
    before = len(ran(tmp_path))
    (new / "program.sh").write_text((new / "program.sh").read_text() + "# the next change\n")
    assert "gate passed" in wf("gate", "old/campaign.yaml", "new/campaign.yaml", "-q")
    assert sorted(ran(tmp_path)[before:]) == ["new"] * REPETITIONS + ["old"] * REPETITIONS


def test_two_values_of_one_file_are_two_versions(tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "here", drift=0.001)
    words = ("gate", "here/campaign.yaml", "--new-set", "set.stages.one.env.FACTOR=2", "-q", "--json")
    said = wf(*words, code=4)
    changes = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert (changes["base"], changes["new"]) == ("old", "set.stages.one.env.FACTOR=2")
    (change,) = changes["changes"]
    assert change["decision"] == "slower" and 1.9 < change["ratio"] < 2.1


def test_two_environments_are_two_versions(tmp_path: Path, wf: Wf) -> None:
    here = checkout(tmp_path, "here", drift=0.001)
    slow = tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@" 3\n')
    slow.chmod(0o755)
    program = "import sys, json; json.dump({'time': float(sys.argv[-1])}, open('figures.json', 'w'))"
    (here / "pipeline.yaml").write_text(
        "wf: 1\nname: gate\noversubscribe: true\nstages:\n"
        f'  one: {{command: ["${{{{ wf.python }}}}", -c, "{program}", "1"]}}\n'
    )
    said = wf("gate", "here/campaign.yaml", "--new-python", "slow-python/none", code=2)
    assert "there is no program slow-python/none" in said
    assert "slower" in wf("gate", "here/campaign.yaml", "--new-python", "./slow-python", "-q", code=4)


def test_trials_and_metrics_of_one_version_alone(tmp_path: Path, wf: Wf) -> None:
    old, new = checkout(tmp_path, "old"), checkout(tmp_path, "new")
    (old / "campaign.yaml").write_text(CAMPAIGN + "matrix: {stages.one.env.FACTOR: [1, 2]}\n")
    (new / "campaign.yaml").write_text(CAMPAIGN + "matrix: {stages.one.env.FACTOR: [1, 3]}\n")
    said = wf("gate", "old/campaign.yaml", "new/campaign.yaml", "-q", "--strict", code=5)
    assert "only the base has this trial" in said
    assert len(ran(tmp_path)) == 2 * REPETITIONS, "a trial ran that cannot be compared"
    (new / "campaign.yaml").write_text(CAMPAIGN + "matrix: {stages.one.env.FACTOR: [7]}\n")
    assert "no trial is in both" in wf("gate", "old/campaign.yaml", "new/campaign.yaml", code=2)


def test_a_repetition_that_fails_ends_it_before_the_comparison(tmp_path: Path, wf: Wf) -> None:
    checkout(tmp_path, "old")
    (checkout(tmp_path, "new") / "program.sh").write_text("#!/bin/sh\nexit 1\n")
    said = wf("gate", "old/campaign.yaml", "new/campaign.yaml", "-q", "--set", "retries=0", code=1)
    assert "8 of 16 repetitions succeeded, 8 failed" in said and "gate passed" not in said


def test_each_run_knows_the_commit_of_its_version(tmp_path: Path, wf: Wf) -> None:
    commits = {}
    for name in ("old", "new"):
        folder = checkout(tmp_path, name)
        git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", f"the {name} one"]):
            subprocess.run([*git, *words], check=True, timeout=TIMEOUT_S)
        commits[name] = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True, timeout=TIMEOUT_S).strip()
    wf("gate", "old/campaign.yaml", "new/campaign.yaml", "-q")
    directory = tmp_path / "campaigns/gate-gate"
    for identity, attempt in read_history(directory).ended.items():
        provenance = json.loads((directory / "runs" / attempt.run / "provenance.json").read_text())
        assert provenance["git"]["commit"] == commits[identity.key.rpartition("-")[2]]


def test_by_the_clock_the_same_version_is_seldom_worse(tmp_path: Path) -> None:
    """Chance alone fails 2.5 % of the gates: two of six in less than one of a hundred tests."""
    campaign = CampaignFolder(tmp_path, values=1, repetitions=REPETITIONS)
    codes = []
    for number in range(6):
        done = subprocess.run(
            [*campaign.argv("gate"), "campaign.yaml", "-q", "--dir", f"gate{number}"],
            cwd=tmp_path, env=campaign.environment,
            capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode in (0, 4), done.stderr
        codes.append(done.returncode)
    assert codes.count(4) <= 1
