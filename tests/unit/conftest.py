"""Fixtures of the unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import COMPONENTS, Planner
from workflow.spec import shipped


@pytest.fixture
def plan_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planner:
    """`plan_of(text)`: the plan of a pipeline file, with the components walker, tally and keep."""
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [COMPONENTS])
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    return Planner(tmp_path)
