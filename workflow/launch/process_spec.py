"""One process that the supervisor starts: a program of one rank, or a launcher with all of its ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow.launch.launch_request import LaunchRequest
from workflow.launch.launchers import LAUNCHERS, launch_line


@dataclass(frozen=True)
class ProcessSpec:
    """What to execute, where, on which cores, and what must be known of it while it runs.

    `files` (path → text) must exist before. `cores` are indices among the cores that the supervisor may use; empty is
    no binding. `folder` is where its output goes.
    """

    name: str
    argv: Sequence[str]
    folder: Path
    cwd: str
    launcher: str
    ranks: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    cores: Sequence[int] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    separate_ids: bool = False


def make_process(request: LaunchRequest) -> ProcessSpec:
    """The process of a launch line."""
    line = launch_line(request)
    return ProcessSpec(
        name=request.name,
        argv=line.argv,
        folder=Path(request.folder),
        cwd=request.cwd,
        launcher=request.launcher,
        ranks=request.ranks,
        env=request.env,
        cores=() if LAUNCHERS[request.launcher].binds else request.cores,
        files=line.files,
        separate_ids=request.separate_ids,
    )
