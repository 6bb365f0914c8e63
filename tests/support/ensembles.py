"""What tests of ensembles have in common: values of members, and what their files hold."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.pipelines import Done
from tests.support.reliability import steps_done
from workflow import stage

MEMBERS = [{"F": 0.02 + 0.002 * index, "k": 0.055 + 0.0005 * index} for index in range(16)]
WITH = 'F: "${{ member.F }}", k: "${{ member.k }}", seed: "${{ member.index }}"'


def values_of(path: Path, name: str) -> np.ndarray[Any, Any]:
    """All steps of a variable in a file, one that its writer has not closed included."""
    found: list[Any] = []
    with stage.open_reader(path=path) as steps, contextlib.suppress(stage.StreamFailed):  # its writer was killed
        found.extend(step.read(name) for step in steps)
    return np.array(found)


def of_members(done: Done, count: int) -> list[np.ndarray[Any, Any]]:
    """V of each member, by its own file."""
    width = len(str(count - 1))
    return [values_of(done.folder / f"streams/field-{index:0{width}}.bp", "V") for index in range(count)]


def has_steps(run_dir: Path, name: str) -> bool:
    """Whether a stage has done three steps."""
    return steps_done(run_dir, name) >= 3
