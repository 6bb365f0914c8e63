"""A launcher as a stranger would add it: a module, and a line in the table."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from workflow.launch.launch_request import Launcher
from workflow.launch.launchers import MODULES


def add_launcher(monkeypatch: pytest.MonkeyPatch, name: str, launcher: Launcher) -> None:
    """Add it for one test."""
    module = ModuleType(f"workflow.launch.{name}")
    vars(module)["LAUNCHER"] = launcher
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(MODULES, name, name)
