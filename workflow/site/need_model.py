"""What a stage needs on the machine where it runs: programs, scripts and Python modules, as data.

The plan states the needs (`workflow.plan.stage_needs`, pure); `workflow.site.availability` looks them up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class ProgramNeed:
    """A program that is executed. A launcher starts the ranks of a stage; an interpreter a script."""

    program: str
    """An absolute path, or a name that is searched on PATH."""
    role: Literal["program", "interpreter", "launcher"] = "program"
    launched: bool = False
    """Whether a launcher starts it: one by `execvp`, which gives a script without `#!` to `sh`."""


@dataclass(frozen=True)
class ScriptNeed:
    """A file that an interpreter executes; of a Python script, also the modules that it imports."""

    script: str
    """Absolute."""
    python: str = ""
    """The Python that executes it, a path or a name on PATH; empty: another interpreter."""
    copied_with: tuple[str, ...] = ()
    """For a script of `files:`, the names of all files there: modules are searched among them, beside the copy.

    `wf` fills placeholders in such a script, so that it need not be valid Python before.
    """


@dataclass(frozen=True)
class ModuleNeed:
    """Python modules that a program imports, by their top-level names."""

    modules: tuple[str, ...]
    python: str
    """The Python that imports them, a path or a name on PATH."""
    asked_by: str
    """For messages: `component archive`, `via: hdf5`."""
    beside: Path | None = None
    """A folder that is searched first: that of the script."""
    copied: tuple[str, ...] = ()
    """Files that will be beside the script, by name."""
    lines: tuple[int, ...] = ()
    """Where a script imports them, one line each."""


@dataclass(frozen=True)
class NewFileNeed:
    """A file that the stage creates outside of the run directory, and that must not exist before."""

    path: str
    """Absolute."""


@dataclass(frozen=True)
class StageNeed:
    """One thing that a stage needs, with the key of the pipeline file that asks for it."""

    stage: str
    key: str
    thing: ProgramNeed | ScriptNeed | ModuleNeed | NewFileNeed
    written: str = ""
    """The program or script as the user wrote it; empty where the user did not."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The environment variables of the stage that decide what is found: PATH and those of Python."""
    modules_known: bool = True
    """False where the run may create modules that a script imports."""
    path_known: bool = True
    """False where PATH leads into a directory that the run creates."""
    certain: bool = True
    """False where the stage may succeed although the need is not met: what a script imports, what a stage before it
    may write."""


@dataclass(frozen=True)
class NeedState:
    """Whether a need is met. `missing`: what is wrong and what to type; `unchecked`: why nobody knows."""

    need: StageNeed
    state: Literal["ok", "missing", "unchecked"]
    detail: str
    hint: str = ""
