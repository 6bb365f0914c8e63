"""The documentation names files of the source tree that exist, and the design page lists every room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
# The programs of the pages' own examples are not part of the tree; a superseded decision names the files of its day.
NOT_OURS = {"spectrum/program.py"}
SUPERSEDED = "0009-inserted-stages.md"
# A file of workflow/, with or without that folder, or of the repository.
NAMED = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != SUPERSEDED], ids=lambda page: str(page.relative_to(ROOT))
)
def test_files_exist(page: Path) -> None:
    named = {match[1] for match in NAMED.finditer(page.read_text(encoding="utf-8"))} - NOT_OURS
    missing = [name for name in sorted(named) if not ((ROOT / name).is_file() or (ROOT / "workflow" / name).is_file())]
    assert not missing, f"{page.name} names files that do not exist"


def test_design_page_lists_every_room() -> None:
    text = (ROOT / "docs/explanation/design.md").read_text(encoding="utf-8")
    listed = {match[1] for match in re.finditer(r"^  ([a-z_]+)/? ", text, flags=re.MULTILINE)}
    rooms = {path.parent.name for path in (ROOT / "workflow").glob("*/__init__.py")}
    assert rooms <= listed, "rooms that the design page does not list"
