"""The generated reference pages are those that the code would write now."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import workflow
from workflow import stage

ROOT = Path(__file__).parents[2]


def test_reference_is_up_to_date() -> None:
    answer = subprocess.run([sys.executable, "tools/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_defaults_are_written_as_in_yaml() -> None:
    pages = [path for path in (ROOT / "docs/reference").glob("*.md") if path.name not in ("python.md", "stage.md")]
    python = re.compile(r"`(True|False|\[.*'.*\])`")
    assert [(path.name, python.findall(path.read_text(encoding="utf-8"))) for path in pages] == [
        (path.name, []) for path in pages
    ]


def test_the_pipeline_file_is_described_by_its_keys_stages_and_streams_first() -> None:
    text = (ROOT / "docs/reference/pipeline.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[:3] == ["The file", "`stages.NAME`", "`stages.NAME.place`"]
    assert titles.index("`streams.NAME`") < titles.index("`deadlines`") < titles.index("Expectations")
    linked = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert linked <= {re.sub(r"[^\w -]", "", title).lower() for title in titles}


def test_everything_that_programs_import_is_in_the_reference() -> None:
    for page, names in (("stage.md", stage.__all__), ("python.md", workflow.__all__)):
        text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
        headings = set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
        # Types in signatures are explained at the head of the page.
        assert set(names) - headings - {"Array", "Shape", "__version__"} == set()
