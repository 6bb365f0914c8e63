"""What each kind of program is told, by stream and by file: golden texts of its arguments, environment and files.

One pipeline per dialect in tests/specs/dialects. After a deliberate change:
`pytest tests/unit/test_plan_config_texts.py --bless`, then read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.planner import COMPONENTS, SITE, line_of
from workflow.plan.make_plan import make_plan
from workflow.plan.plan_model import Plan
from workflow.spec import shipped
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
PIPELINES = ROOT / "tests/specs/dialects"
GOLDEN = ROOT / "tests/golden/dialects"
CASES = [(path.stem, via) for path in sorted(PIPELINES.glob("*.yaml")) for via in ("sst", "bp5")]


@pytest.fixture(autouse=True)
def tiny_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [COMPONENTS])


def planned(name: str, via: str) -> Plan:
    loaded = load_pipeline(PIPELINES / f"{name}.yaml", via=via)
    return make_plan(loaded, SITE, python="/env/bin/python", wf_version="0")


def told(plan: Plan) -> Iterator[str]:
    """All that reaches the programs that are not components, and where their readers look."""
    for stream in plan.streams:
        yield f"stream {stream.name}: {stream.path}, on disk {', '.join(stream.on_disk)}"
    for stage in plan.stages:
        if stage.component is not None:
            continue
        yield f"\n== {stage.name}: {' '.join(line_of(plan, stage.name))}"
        yield from (f"{key}={value}" for key, value in stage.env.items())
        for path, text in stage.files.items():
            yield f"-- {path}\n{text}"
    yield from (f"\nadvice: {text}" for text in plan.advice)


@pytest.mark.parametrize(("name", "via"), CASES, ids=lambda value: str(value))
def test_told(name: str, via: str, bless: bool) -> None:
    text = "\n".join(told(planned(name, via))).replace(str(ROOT), "<root>") + "\n"
    golden = GOLDEN / f"{name}.{via}.txt"
    if bless:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert golden.is_file(), f"no {golden.name}: run with --bless, then read it"
    assert text == golden.read_text()


def test_nothing_is_kept_of_dialects_that_are_gone() -> None:
    assert {path.name for path in GOLDEN.glob("*.txt")} == {f"{name}.{via}.txt" for name, via in CASES}
