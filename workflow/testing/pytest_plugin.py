"""The fixture `run_component`: `pytest_plugins = ["workflow.testing.pytest_plugin"]` in conftest.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from workflow.testing import component_run
from workflow.testing.component_run import ComponentResult


class RunComponent(Protocol):
    """What the fixture gives: `workflow.testing.run_component`, with the folder of the test."""

    def __call__(self, *arguments: object, **options: object) -> ComponentResult:
        """Run one stage."""


@pytest.fixture
def run_component(tmp_path: Path) -> RunComponent:
    """`workflow.testing.run_component`, whose runs are in the temporary folder of the test."""
    return partial(component_run.run_component, folder=tmp_path)
