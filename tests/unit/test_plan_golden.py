"""Golden plans of the examples, through memory and through files, with normalised paths.

After a deliberate change: `pytest tests/unit/test_plan_golden.py --bless`, then read the difference.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from workflow.plan.make import make_plan
from workflow.plan.read_plan import read_plan
from workflow.site.launcher_tables import launcher_options
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/plans"
VERSION_1, VERSION_2 = ROOT / "tests/golden/plans-v1", ROOT / "tests/golden/plans-v2"
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


# What a pipeline file that states no deadline got in version 1. Version 2 has other defaults, and one deadline more.
LIMITS_OF_VERSION_1 = {"step": 600.0, "run": 86400.0, "stop": 3.0}


def comparable(plan: dict[str, Any]) -> dict[str, Any]:
    """Of reasons and advice, whose wording is free, how many there are and of what; of deadlines the stated ones.

    Without what version 3 has of the site, which the versions before did not know.
    """
    plan = {key: value for key, value in plan.items() if key not in ("node", "launch_options")}
    deadlines = {name: limit for name, limit in plan["deadlines"].items() if name != "warn"}
    stated = {name: limit for name, limit in deadlines.items() if limit != LIMITS_OF_VERSION_1.get(name)}
    stated = {name: limit for name, limit in stated.items() if limit is not None and (name, limit) != ("stop", 60.0)}
    for end in (end for stage in plan["stages"] for end in stage["ends"]):
        end["step_timeout_s"] = None if end["step_timeout_s"] == LIMITS_OF_VERSION_1["step"] else end["step_timeout_s"]
    return plan | {"reasons": sorted(plan["reasons"]), "advice": len(plan["advice"]), "deadlines": stated}


def without_contents(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without what an example asks of its components and what the data then are, which may change."""
    for stage in plan["stages"]:
        del stage["parameters"], stage["file_parameters"]
        for end in stage["ends"]:
            del end["units"], end["variables"], end["steps"]
    return comparable(plan)


@pytest.mark.parametrize("name", sorted(path.name for path in VERSION_2.glob("*.json")))
def test_version_2_has_what_to_launch_and_nothing_else_is_new(name: str) -> None:
    """The files of versions 1 and 2 are what those versions wrote: they are never blessed. Of version 2 one stream and
    one file are kept."""
    old: dict[str, Any] = json.loads((VERSION_1 / name).read_text())
    new: dict[str, Any] = json.loads((VERSION_2 / name).read_text())
    assert (old.pop("plan_version"), new.pop("plan_version")) == (1, 2)
    for part in (*old["stages"], *old["groups"]):
        del part["argv"], part["launcher"]
    for group in old["groups"]:
        del group["files"]
    for part in (*new["stages"], *new["groups"]):
        del part["launch"]
    assert comparable(new) == comparable(old)


OLDER = sorted(path for folder in (VERSION_1, VERSION_2) for path in folder.glob("*.json"))


@pytest.mark.parametrize("path", OLDER, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_plans_of_older_versions_are_read_as_those_of_today(path: Path) -> None:
    read = read_plan(path.read_bytes(), path.name).model_dump(mode="json")
    assert without_contents(read) == without_contents(json.loads((GOLDEN / path.name).read_text()))


def test_nothing_is_kept_of_examples_that_are_gone() -> None:
    expected = {f"{example}.{option}.json" for example in EXAMPLES for option in OPTIONS}
    assert {path.name for path in GOLDEN.glob("*.json")} == expected
