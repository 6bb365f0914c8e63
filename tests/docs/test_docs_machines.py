"""The walk-through of three machines shows lines of real plans and job scripts, in order; `…` stands for any text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow.cli.main import wf

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/frontier-aurora-lumi.md").read_text()
EXAMPLE = (ROOT / "examples/01-shock-diffraction/pipeline.yaml").read_text()
SITES = ["frontier", "aurora", "lumi-g"]


def block(language: str, first: str) -> str:
    """The block of the page whose first line is this comment, without that line."""
    (found,) = re.findall(rf"^( *)```{language}\n *# {re.escape(first)}\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
    indent, text = found
    return "\n".join(line.removeprefix(indent) for line in text.splitlines())


def commands(site: str) -> list[str]:
    """The words of the page's `wf plan` for a site, after `wf`."""
    lines = [line.partition("#")[0] for line in PAGE.splitlines() if line.startswith("$ wf plan")]
    return next(line.removeprefix("$ wf ").split() for line in lines if f"--site {site}" in line)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder as the reader of the page has it: the example with the profile, and the own site files."""
    (tmp_path / "sites").mkdir()
    (tmp_path / "shock").mkdir()
    for site in SITES:
        (tmp_path / "sites" / f"{site}.yaml").write_text(block("yaml", f"fragment: site {site}"))
    (tmp_path / "shock/pipeline.yaml").write_text(EXAMPLE + block("yaml", "fragment: profile two-nodes"))
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("title", "more"), [("plan", []), ("job script", ["--job-script"])])
def test_the_lines_are_those_of_the_plan(site: str, title: str, more: list[str]) -> None:
    done = CliRunner().invoke(wf, [*commands(site), *more])
    assert done.exit_code == 0, done.output
    printed = iter(done.output.splitlines())
    for shown in block("text", f"{title} for {site}").splitlines():
        pattern = re.compile(".*".join(map(re.escape, shown.split("…"))))
        assert any(pattern.fullmatch(line) for line in printed), (
            f"not there, or in another order: {shown}\n{done.output}"
        )


@pytest.mark.parametrize("site", SITES)
def test_the_pipeline_is_valid(site: str) -> None:
    done = CliRunner().invoke(wf, ["check", *(word for word in commands(site)[1:] if word != "--wide")])
    assert done.exit_code == 0, done.output
