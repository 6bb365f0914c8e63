"""Messages that the documentation shows are those that `wf` prints, word by word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from workflow.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The name of the file that a block shows, in its first line.
NAMED = re.compile(r"# (?:fragment: )?([\w-]+\.yaml)\b")
MESSAGE = re.compile(r"^(error|warning|note): ", re.MULTILINE)
STARTER = (ROOT / "examples/00-starter/pipeline.yaml").read_text()


class Session(NamedTuple):
    """A block of commands with their output, and the files that the page shows before it."""

    page: str
    text: str
    files: dict[str, str]


def sessions() -> Iterator[Session]:
    for page in PAGES:
        files: dict[str, str] = {}
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "yaml" and (named := NAMED.match(text)):
                files[named[1]] = text
            # Campaigns, with the files that their page writes: test_docs_campaigns.
            if language == "console" and MESSAGE.search(text) and not text.startswith("$ wf campaign "):
                yield Session(str(page.relative_to(ROOT)), text, dict(files))


ALL = list(sessions())


def test_the_pages_are_found() -> None:
    assert {session.page for session in ALL} >= {"docs/reference/messages.md", "docs/tutorial.md"}


@pytest.mark.parametrize("session", ALL, ids=[f"{session.page}-{number}" for number, session in enumerate(ALL)])
def test_messages_are_printed_as_shown(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    # The tutorial changes one word of the starter.
    files = {"pipeline.yaml": STARTER.replace("    queue:", "    quue:")} | session.files
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    printed = ""
    for line in session.text.splitlines():
        if line.startswith("$ "):
            monkeypatch.setattr("sys.argv", shlex.split(line[2:].partition(" #")[0]))
            try:
                main()
            except SystemExit as left:
                assert left.code in (0, 2)
            said = capsys.readouterr()
            printed += f"{line}\n{said.out}{said.err}"
    assert printed == session.text
