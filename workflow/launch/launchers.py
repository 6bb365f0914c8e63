"""The launchers by the name that a site's file gives them. A new one is a new module beside this, and a line here.

A module is imported only where its launcher is used: most runs use one of them.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, rank_settings


def _program_line(request: LaunchRequest) -> LaunchLine:
    """One rank without a launcher: the program is started as it is."""
    return LaunchLine(list(request.program), env=rank_settings(request, "").env)


class _Launchers(UserDict[str, Any]):
    """Launchers by their names. In place of a launcher its module may be named."""

    def __getitem__(self, name: str) -> Launcher:
        launcher = self.data[name]
        if isinstance(launcher, str):
            launcher = self.data[name] = import_module(f"workflow.launch.{launcher}").LAUNCHER
        assert isinstance(launcher, Launcher)
        return launcher


# The program is started as it is; and what a site's file means that names no launcher.
DIRECT, DEFAULT = "none", "mpiexec"
LAUNCHERS: MutableMapping[str, Launcher] = _Launchers(
    {
        DIRECT: Launcher(_program_line, executable=""),
        "mpiexec": "mpich",
        "pals": "pals",
        "openmpi": "openmpi",
        "srun": "srun",
        "jsrun": "jsrun",
        "flux": "flux_run",
    }
)


def known_launcher(name: str) -> str:
    """`name`, if there is such a launcher. Raises ValueError with those that there are."""
    if name not in LAUNCHERS:
        known = ", ".join(f"`{each}`" for each in LAUNCHERS)
        raise ValueError(f'there is no launcher "{name}"; launchers: {known}')
    return name


def launch_line(request: LaunchRequest) -> LaunchLine:
    """What is executed. The same for `wf plan`, which has no hosts yet, and for the run."""
    return LAUNCHERS[request.launcher].line(request)


@dataclass(frozen=True)
class ProcessSpec:
    """One process that the supervisor starts: a program of one rank, or a launcher with all of its ranks.

    What to execute, where, on which cores, and what must be known of it while it runs.

    `files` (path → text) must exist before. `cores` are numbers on this machine; empty is no binding. `folder` is where
    its output goes. `without` are variables that it must not inherit: names, or beginnings that end in `*`.
    `secrets`: variable → where its value is (`workflow.redaction`). `is_here`: whether all its ranks run on this
    machine.
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
    without: Sequence[str] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    is_here: bool = True


def make_process(request: LaunchRequest) -> ProcessSpec:
    """The process of a launch line. Where the launcher does not bind ranks, they inherit the cores of all of them."""
    line = launch_line(request)
    binds = LAUNCHERS[request.launcher].binds
    return ProcessSpec(
        name=request.name,
        argv=line.argv,
        folder=Path(request.folder),
        cwd=request.cwd,
        launcher=request.launcher,
        ranks=request.ranks,
        env={**request.env, **line.env},
        cores=() if binds else sorted({core for cores in request.layout.cores for core in cores}),
        files=line.texts(),
        separate_ids=request.separate_ids,
        without=line.without,
        secrets=request.secrets,
        is_here=request.is_here,
    )
