"""Site files: those on the page load, and each value of a shipped one has its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workflow.site.load_site import load_site, read_site_file
from workflow.spec.shipped import known_configs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/your-own-machine.md").read_text()
SHIPPED = sorted((ROOT / "configs/sites").glob("*.yaml"))
# The file of a machine that somebody else runs: not this one, not any, not a template.
KNOWN = [path for path in SHIPPED if "\n#" in f"\n{path.read_text()}" and "[" in path.read_text().split("site:")[0]]
# What a site is called, and what is a choice of ours and not a fact.
NO_FACTS = {"site", "summary", "extends", "launch_single"}


@pytest.mark.parametrize("name", ["frontier", "my-machine"])
def test_files_of_the_page_load(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(rf"```yaml\n# fragment: {name}\.yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    assert load_site(name).site == name


def test_the_pages_own_frontier_changes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = read_site_file("frontier")
    (text,) = re.findall(r"```yaml\n# fragment: frontier\.yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/frontier.yaml").write_text(text)
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    own = read_site_file("frontier")
    assert (own.submit.account, own.submit.max_queued) == ("ABC123", shipped.submit.max_queued)
    assert (own.queues["batch"].walltime, own.gpus) == (6 * 3600, shipped.gpus)


def test_the_sites_that_were_promised() -> None:
    machines = {"frontier", "frontier-64", "perlmutter-gpu", "perlmutter-cpu", "aurora", "polaris", "lumi-g", "alps"}
    machines |= {"juwels-booster", "jupiter", "andes", "hemera", "hemera-defq"}
    assert {path.stem for path in KNOWN} == machines
    assert set(known_configs("sites")) - machines == {"local", "slurm", "pbs", "lsf", "flux", "hosts", "example-slurm"}


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_each_value_has_its_source(path: Path) -> None:
    """Every key has a comment with it, or a `source`; a mark such as [guide] is explained in the head of a file."""
    text = path.read_text()
    head, body = text[: text.index("\nsite:")], text[text.index("\nsite:") :]
    if "extends:" in body:
        base = re.search(r"extends: (\S+)", body)
        assert base is not None
        head += (path.parent / f"{base[1]}.yaml").read_text()
    blocks = re.split(r"\n(?=[a-z])", body)[1:]
    bare = [block.split(":")[0] for block in blocks if "#" not in block and "source:" not in block]
    assert set(bare) <= NO_FACTS
    marks = set(re.findall(r"# ?(?:[^\n]*?)(\[[a-z]+\])", body))
    assert marks, "no source at all"
    assert [mark for mark in marks if mark not in head] == []


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_the_head_says_what_is_not_known(path: Path) -> None:
    text = path.read_text()
    assert "extends:" in text or "# Not known, and left out: " in text
