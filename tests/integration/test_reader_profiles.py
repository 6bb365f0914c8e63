"""A reader of BP5 files leaves nothing in /tmp, where ADIOS2 writes the times that it has measured."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.chains import chain, make_plan
from tests.support.watching import describe, run_whole
from workflow.formats.reader_profile import FOLDER
from workflow.plan.plan_model import Plan


def renamed(plan: Plan, name: str) -> Plan:
    """The same with files of this name: those of other tests have others."""
    stages = [
        stage.model_copy(
            update={
                "ends": [end.model_copy(update={"path": end.path.replace("/atoms", f"/{name}")}) for end in stage.ends],
                "program": [word.replace("/atoms", f"/{name}") for word in stage.program],
            }
        )
        for stage in plan.stages
    ]
    streams = [
        stream.model_copy(
            update={
                "path": stream.path.replace("/atoms", f"/{name}"),
                "on_disk": [each.replace("/atoms", f"/{name}") for each in stream.on_disk],
            }
        )
        for stream in plan.streams
    ]
    return make_plan(stages, streams)


@pytest.mark.parametrize("plain", [False, True])
def test_nothing_is_left_of_its_profile(plain: bool, tmp_path: Path) -> None:
    name = f"profiled-{uuid.uuid4().hex}"
    outcome = run_whole(renamed(chain("live", plain=plain, steps=3, sink=False), name), tmp_path)
    assert outcome.verdict.state == "succeeded", describe(outcome.state, outcome.run_dir)
    assert (outcome.run_dir / f"streams/{name}.bp").exists()
    assert sorted(FOLDER.glob(f"{name}*")) == []
