"""Golden plans of the examples, through memory and through files, with normalised paths.

After a deliberate change: `pytest tests/unit/test_plan_golden.py --bless`, then read the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workflow.plan.make_plan import make_plan
from workflow.site.load_site import launcher_options
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/plans"
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pipeline.yaml"))
OPTIONS: dict[str, tuple[str | None, list[str]]] = {
    "stream": (None, []),
    "file": ("bp5", []),
    "live-file": ("bp5", ["streams.*.coupling=live"]),
}
# Not this machine: plans must not depend on it.
LAPTOP = Site(
    site="laptop",
    summary="8 cores",
    nodes=1,
    cores_per_node=8,
    memory_per_node=2**34,
    launcher_options=launcher_options("mpiexec"),
)


def planned(example: str, option: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    via, sets = OPTIONS[option]
    loaded = load_pipeline(f"examples/{example}/pipeline.yaml", via=via, sets=sets)
    text = make_plan(loaded, LAPTOP, python="/env/bin/python", wf_version="0").to_json()
    # a comment more in an example moves its lines, not its plan
    return re.sub(r"(pipeline\.yaml):\d+:\d+", r"\1:LINE:COLUMN", text.replace(str(ROOT), "<root>"))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_plan(example: str, option: str, bless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = planned(example, option, monkeypatch)
    golden = GOLDEN / f"{example}.{option}.json"
    if bless:
        golden.write_text(text)
    assert golden.is_file(), f"no {golden.name}: run with --bless, then read it"
    assert text == golden.read_text()


def test_nothing_is_kept_of_examples_that_are_gone() -> None:
    expected = {f"{example}.{option}.json" for example in EXAMPLES for option in OPTIONS}
    assert {path.name for path in GOLDEN.glob("*.json")} == expected
