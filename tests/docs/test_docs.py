"""Every code block of the documentation is checked: pipelines by `wf check`, commands by `wf VERB --help`.

A block that is only a part says so in its first line (`# fragment`), so that nothing is skipped in silence.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from workflow.cli.main import wf

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            yield Block(str(page.relative_to(ROOT)), text.count("\n", 0, match.start()) + 1, match[1], match[2])


ALL = list(blocks())


def of(*languages: str) -> list[object]:
    chosen = [block for block in ALL if block.language in languages]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in chosen]


def is_fragment(block: Block) -> bool:
    return block.text.lstrip().startswith("# fragment")


@pytest.mark.parametrize("block", of("console"))
def test_commands_exist(block: Block) -> None:
    if re.search("^(error|warning|note): ", block.text, re.MULTILINE):
        return  # test_docs_messages.py runs it: it may show misspelt commands
    for line in block.text.replace("\\\n", " ").splitlines():
        for command in line.removeprefix("$ ").partition("#")[0].split(";"):
            words = shlex.split(command)
            if words[:1] != ["wf"]:
                continue
            verb = wf.commands.get(words[1])
            if isinstance(verb, click.Group):
                words = words[1:]
                verb = verb.commands.get(words[1])
            assert verb is not None, f"no such verb: {command}"
            if isinstance(verb, click.Group):
                verb = verb.commands.get(words[2])
                assert verb is not None, f"no such verb: {command}"
            known = {option for parameter in verb.params for option in [*parameter.opts, *parameter.secondary_opts]}
            used = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
            assert used <= known, f"{command}: wf {words[1]} has no {used - known}"


@pytest.mark.parametrize("block", of("yaml"))
def test_pipelines_are_valid(block: Block, tmp_path: Path) -> None:
    if is_fragment(block):
        return
    if block.text.startswith("# campaign.yaml"):
        (tmp_path / "pipeline.yaml").write_text((ROOT / "examples/00-starter/pipeline.yaml").read_text())
        (tmp_path / "campaign.yaml").write_text(block.text)
        planned = CliRunner().invoke(wf, ["campaign", "plan", str(tmp_path / "campaign.yaml")])
        assert planned.exit_code == 0, f"{planned.output}\n{planned.exception}"
        return
    (tmp_path / "pipeline.yaml").write_text(block.text)
    for name in ("in.shock", "settings.in.json", "my-sim"):
        (tmp_path / name).write_text("")
    result = CliRunner().invoke(wf, ["check", str(tmp_path / "pipeline.yaml"), "--set", "oversubscribe=true"])
    assert result.exit_code == 0, f"{result.output}\n{result.exception}"


@pytest.mark.parametrize("block", of("python"))
def test_python_compiles(block: Block) -> None:
    compile(block.text, f"{block.page}:{block.line}", "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_readme_links_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+\.md)", (ROOT / "README.md").read_text()))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"}
    assert pages == {page for page in linked if "decisions" not in page}


def test_anchors_of_the_reference_exist() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*reference/[^)#]+\.md)#([^)]+)\)", page.read_text()):
            headings = re.findall(r"^#+ (.*)$", (page.parent / target).read_text(), re.MULTILINE)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, f"{page}: {target}#{anchor}"


def test_every_verb_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text()
    assert all(f"## wf {name}\n" in text for name in wf.commands)
