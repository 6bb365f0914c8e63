"""Site files that extend another one: what is taken over, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.errors import SpecError
from workflow.site.load_site import load_site, read_site_file
from workflow.spec.shipped import SHIPPED


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of sites."""
    (tmp_path / "sites").mkdir()
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    return tmp_path / "sites"


def test_single_keys_are_changed(own: Path) -> None:
    (own / "mine.yaml").write_text(
        "site: mine\nextends: frontier\nmodules: [module load adios2]\n"
        "submit: {account: ABC123}\nqueues: {batch: {walltime: 8 h}, mine: {walltime: 1 h}}\nenv: {A: '1'}\n"
    )
    mine, base = read_site_file("mine"), read_site_file("frontier")
    assert (mine.site, mine.summary, mine.gpus, mine.modules) == (
        "mine",
        base.summary,
        base.gpus,
        ["module load adios2"],
    )
    assert (mine.submit.account, mine.submit.max_queued) == ("ABC123", 100)
    assert list(mine.queues) == [*base.queues, "mine"]
    batch = mine.queues["batch"]
    assert (batch.walltime, batch.limits, batch.default) == (8 * 3600, base.queues["batch"].limits, True)
    assert mine.detect == base.detect, "it is on the same machine"


def test_a_file_may_extend_its_namesake(own: Path) -> None:
    (own / "frontier.yaml").write_text("site: frontier\nextends: frontier\nsubmit: {account: ABC123}\n")
    site = load_site("frontier")
    assert (site.submit.account, site.cores_per_node) == ("ABC123", 64)
    assert site.detect == read_site_file(str(SHIPPED / "configs/sites/frontier.yaml"), Path("/")).detect


def test_a_path_beside_the_file(own: Path) -> None:
    (own / "a.yaml").write_text("site: a\nextends: ./b.yaml\n")
    (own / "b.yaml").write_text("site: b\nsummary: s\nextends: slurm\nnodes: 3\n")
    site = load_site("./a.yaml", own)
    assert (site.site, site.summary, site.nodes, site.launcher) == ("a", "s", 3, "srun")


def test_frontier_has_64_cores_where_none_is_reserved() -> None:
    assert len(load_site("frontier").usable_cores) == 56
    assert len(load_site("frontier-64").usable_cores) == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "site: mine\nextends: fronteir",
            "mine.yaml:2:10: extends: there is no site `fronteir`\n  did you mean `frontier`?",
        ),
        ("site: mine\nextends: mine", "mine.yaml:2:10: extends: mine extends this site itself"),
        ("extends: frontier", "mine.yaml:1:1: site: is missing"),
        ("site: mine\nextends: [a]", "mine.yaml:2:10: extends: expected text, got a list"),
        ("site: mine\nextends: frontier\ncores_per_node: 32", "frontier.yaml:"),
        (
            "site: mine\nextends: frontier\nsubmit: {acount: A}",
            "mine.yaml:3:10: submit.acount: unknown key\n  did you mean",
        ),
    ],
)
def test_mistakes_have_their_place(own: Path, text: str, message: str) -> None:
    (own / "mine.yaml").write_text(text + "\n")
    with pytest.raises(SpecError) as caught:
        load_site("mine")
    assert message in str(caught.value)


def test_two_files_that_extend_each_other(own: Path) -> None:
    (own / "a.yaml").write_text("site: a\nextends: b\n")
    (own / "b.yaml").write_text("site: b\nextends: a\n")
    with pytest.raises(SpecError, match=r"b\.yaml:2:10: extends: a extends this site itself"):
        load_site("a")
