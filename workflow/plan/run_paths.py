"""Where things are inside the run directory, as plan strings."""

from __future__ import annotations

from workflow.plan.plan_model import RUN_DIR


def stage_dir(stage: str) -> str:
    """The directory of a stage."""
    return f"{RUN_DIR}/stages/{stage}"


def work_dir(stage: str) -> str:
    """The directory in which the stage runs."""
    return f"{stage_dir(stage)}/work"


def stream_path(stream: str, name_inside: str, suffix: str) -> str:
    """What ADIOS2 opens. `name_inside` is that of the file where the stream is a directory with files; mostly empty."""
    below = f"/{name_inside}" if name_inside else ""
    return f"{RUN_DIR}/streams/{stream}{below}{suffix}"
