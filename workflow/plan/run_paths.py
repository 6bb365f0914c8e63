"""Where things are inside the run directory, as plan strings."""

from __future__ import annotations

from workflow.plan.plan_model import RUN_DIR


def stage_dir(stage: str) -> str:
    """The directory of a stage."""
    return f"{RUN_DIR}/stages/{stage}"


def work_dir(stage: str) -> str:
    """The directory in which the stage runs."""
    return f"{stage_dir(stage)}/work"


def stream_path(stream: str, name_by_writer: str, suffix: str) -> str:
    """What ADIOS2 opens. `name_by_writer` is what the writer adds to the directory that it is given; mostly empty."""
    below = f"/{name_by_writer}" if name_by_writer else ""
    return f"{RUN_DIR}/streams/{stream}{below}{suffix}"
