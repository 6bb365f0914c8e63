"""The process that opens a stream in place of a reader that has failed, so that its writer does not wait for ever."""

from __future__ import annotations

import sys
from pathlib import Path

from workflow.launch.launchers import ProcessSpec
from workflow.plan.plan_model import Plan, StagePlan

PROGRAM = Path(__file__).parents[2] / "stage" / "adios" / "sst_end.py"


def stand_in(plan: Plan, stage: StagePlan, stream: str, folder: Path) -> ProcessSpec:
    """The process; what it prints goes into `folder`. A relay is a Python program with ADIOS2: its Python is taken."""
    writer = plan.stage(plan.stream(stream).writer)
    python, env = (writer.program[0], writer.env) if writer.added == "relay" else (sys.executable, {})
    (end,) = (end for end in stage.ends if (end.stream, end.side) == (stream, "read"))
    settings = [f"{key}={value}" for key, value in end.parameters.items()]
    argv = [python, str(PROGRAM), "stand-in", end.path, *settings]
    return ProcessSpec(f"{stage.name} ({stream})", argv, folder, str(folder), "none", env=env)
