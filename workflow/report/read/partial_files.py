"""What stages have left of files that they had not finished: `FILE.partial`, where a parameter names `FILE`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workflow.plan.plan_model import Plan
from workflow.run.observe.bp_index import read_index

# As the component `archive` calls a file until its stream has ended.
SUFFIX = ".partial"


@dataclass(frozen=True)
class PartialFile:
    """`path` is what is there; `wanted` the file that it was to become. `steps`: those that can be read, None where
    that is not known."""

    wanted: Path
    path: Path
    steps: int | None


def find_partial_files(plan: Plan) -> list[PartialFile]:
    """Those of all stages; `plan` has its run directory filled in."""
    found = []
    for stage in plan.stages:
        for value in stage.parameters.values() if stage.component is not None else ():
            path = Path(f"{value}{SUFFIX}")
            if isinstance(value, str) and path.is_absolute() and path.exists():
                index = read_index(path / "md.idx") if path.is_dir() else None
                found.append(PartialFile(Path(value), path, None if index is None else index.steps))
    return found
