"""Every code block of the documentation is checked: pipelines by `wf check`, commands by the command line itself.

A block that is only a part says so in its first line (`# fragment`), so that nothing is skipped in silence. Links
between pages and their anchors are checked in the site (tests/browser/test_docs_site.py).
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

import adios2
import click
import pytest
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.spec.models.deadlines import Deadlines

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^ *```", re.MULTILINE)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# A block in another language would be read by nobody.
LANGUAGES = {"console", "yaml", "python", "json", "xml", "cpp", "sh", "text", ""}
# Programs of consoles that are neither ours nor looked into.
ELSEWHERE = {
    ".", "bpls", "cd", "cp", "du", "eval", "git", "grep", "kill", "ls", "mkdir", "module", "salloc", "srun",
}  # fmt: skip
# Written by the reader of a page.
OWN_SCRIPTS = {"spectrum/program.py", "test_histogram.py"}


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield Block(str(page.relative_to(ROOT)), line, match[2], textwrap.dedent(match[3]))


ALL = list(blocks())


def of(*languages: str) -> list[object]:
    chosen = [block for block in ALL if block.language in languages]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in chosen]


def is_fragment(block: Block) -> bool:
    return block.text.lstrip().startswith("# fragment")


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command of a console."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            for command in re.split(r" && |; ", line[2:].partition(" #")[0]):
                yield shlex.split(command)


def check_wf(words: list[str]) -> None:
    """The verb exists, and has these options. Words after it that are no options may be anything."""
    command, verb = " ".join(words), wf.commands.get(words[1])
    place = 2
    while isinstance(verb, click.Group) and place < len(words):
        verb, place = verb.commands.get(words[place]), place + 1
    assert verb is not None, f"no such verb: {command}"
    known = {option for each in verb.params for option in [*each.opts, *each.secondary_opts]} | {"--help"}
    used = {word.partition("=")[0] for word in words[place:] if re.match("--?[a-z]", word)}
    assert used <= known, f"`{command}` has no {used - known}"


def check_program(words: list[str]) -> None:
    """A target of make, an extra of the package, a script of ours: whatever is named exists."""
    program = words[0]
    if program == "make":
        folder = Path(words[words.index("-C") + 1]) if "-C" in words else Path()
        makefile = (ROOT / folder / "Makefile").read_text()
        targets = [word for word in words[1:] if "=" not in word and word not in ("-C", str(folder))]
        assert all(re.search(rf"^{re.escape(each)}:", makefile, re.MULTILINE) for each in targets), words
    elif program.startswith("pip"):
        extras = {each for word in words for found in re.findall(r"\[([\w,]+)\]", word) for each in found.split(",")}
        project = (ROOT / "pyproject.toml").read_text()
        assert all(re.search(rf"^{each} = \[", project, re.MULTILINE) for each in extras), words
    elif program.startswith("python"):
        scripts = [word.removeprefix("CHECKOUT/") for word in words if word.endswith(".py") and word not in OWN_SCRIPTS]
        assert all((ROOT / each).is_file() for each in scripts), words
    else:
        assert program in ELSEWHERE, f"{program}: which program is this?"


def test_every_block_is_found() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(FENCE.findall(text)) == 2 * len(BLOCK.findall(text)), f"{page}: a block does not end, or has options"
    assert {block.language for block in ALL} <= LANGUAGES
    assert all(block.text.startswith("$ ") for block in ALL if block.language == "console")


def test_every_decision_is_listed_with_its_title_and_date() -> None:
    rows = re.findall(
        r"^\| (\d+) \| \[(.*)\]\((.*\.md)\) \| (\d{4}-\d\d-\d\d) \|$",
        (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    written = sorted((ROOT / "docs/decisions").glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0] for page in written]
    assert [name for _, _, name, _ in rows] == [page.name for page in written]
    assert [f"# {number}. {title}" for number, title, _, _ in rows] == titles
    dates = [date for *_, date in rows]
    assert dates == sorted(dates)


@pytest.mark.parametrize("block", of("console"))
def test_commands_exist(block: Block) -> None:
    # test_docs_messages.py runs what ends with a message: it may show misspelt commands.
    if re.search("^(error|warning|note): ", block.text, re.MULTILINE):
        return
    for words in commands(block):
        if words[0].rpartition("/")[2] == "wf":
            check_wf(words)
        else:
            check_program(words)


def test_commands_in_sentences_exist() -> None:
    for page in PAGES:
        for span in INLINE.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            words = re.split(" [>|] ", span)[0].replace("…", "").split()
            if words[:1] == ["wf"] and re.match("[a-z]", "".join(words[1:])):
                check_wf(words)
            elif words[:1] == ["make"] and span != "make install-python":  # LAMMPS has that one
                check_program(words)


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


@pytest.mark.parametrize("block", of("cpp"))
def test_cpp_compiles(block: Block) -> None:
    program = f"#include <adios2.h>\nint main(int argc, char **argv)\n{{\n{block.text}\n}}\n"
    include = Path(adios2.__file__).parent / "include"
    command = ["g++", "-std=c++17", "-fsyntax-only", "-isystem", str(include), "-x", "c++", "-"]
    checked = subprocess.run(command, input=program, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("block", of("json", "xml", "sh"))
def test_other_blocks_are_well_formed(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "xml":
        ElementTree.fromstring(block.text)
    else:
        checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file, where the link is one of ours; of others only the form is looked at, because tests have no network."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        address = urlsplit(target)
        if address.scheme:
            assert address.scheme == "https" and "." in address.netloc and " " not in target, f"{page}: {target}"
        else:
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_readme_links_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+\.md)", (ROOT / "README.md").read_text()))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"}
    assert pages == {page for page in linked if "decisions" not in page}


def test_readme_states_the_deadlines_that_there_are() -> None:
    text, default = " ".join((ROOT / "README.md").read_text().split()), Deadlines()
    assert (default.start, default.step, default.warn) == (120, None, 600)
    assert "Opening a stream has a deadline of 2 minutes. A step has none unless you set one" in text
    assert "`wf` warns after 10 minutes without a step" in text


def test_readme_begins_with_physics_a_pipeline_and_the_demo() -> None:
    text = (ROOT / "README.md").read_text()
    parts = ["](examples/", "```yaml", "$ make demo", "## Install", "$ make test "]
    assert sorted(parts, key=text.index) == parts


@pytest.mark.parametrize("folder", ["examples", "examples/campaigns"])
def test_overviews_link_every_example_and_study(folder: str) -> None:
    overview = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    pages = {page.parent.name for page in (ROOT / folder).glob("*/README.md")}
    assert pages and set(re.findall(r"\]\(([\w-]+)/README\.md\)", overview)) == pages


def test_every_verb_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text()
    assert all(f"## wf {name}\n" in text for name in wf.commands)
