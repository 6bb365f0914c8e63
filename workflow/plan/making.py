"""What the rooms of the plan share while it is made: the pipeline, the site, and the notes taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from workflow.plan.plan_model import RUN_DIR
from workflow.plan.problems import Problems

if TYPE_CHECKING:
    from workflow.plan.complete_pipeline import CompletePipeline
    from workflow.site.site_model import Site


@dataclass
class Notes:
    """Why values are what they are, and what a careful colleague would mention."""

    reasons: dict[str, str] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def why(self, key: str, reason: str) -> None:
        """Says why the plan's value at `key` is what it is."""
        self.reasons[key] = reason

    def advise(self, text: str) -> None:
        """Adds a line of advice, once."""
        if text not in self.advice:
            self.advice.append(text)


@dataclass(frozen=True)
class Making:
    """The inputs of a plan and the two notebooks: problems, and reasons with advice."""

    loaded: CompletePipeline
    site: Site
    python: str
    mpiexec: str
    built: Mapping[str, list[str]]
    problems: Problems
    notes: Notes
    # stream → the name that its writer adds to the directory it is given; known once the streams are joined
    named_by_writer: dict[str, str] = field(default_factory=dict)

    @cached_property
    def stream_values(self) -> dict[str, str]:
        """Placeholders that every stage may use of every stream → plan string."""
        values: dict[str, str] = {}
        for name, engine in self.loaded.engines.items():
            values[f"streams.{name}.path"] = self.stream_path(name)
            values[f"streams.{name}.engine"] = engine.engine
        return values

    @cached_property
    def ranks_on_one_node(self) -> int:
        """Of all stages, if all shared the same nodes."""
        return sum(-(-stage.ranks // (stage.place.nodes or 1)) for stage in self.loaded.spec.stages.values())

    def stream_path(self, name: str) -> str:
        """What ADIOS2 opens, as a plan string."""
        below = f"/{self.named_by_writer[name]}" if name in self.named_by_writer else ""
        return f"{RUN_DIR}/streams/{name}{below}{self.loaded.engines[name].suffix}"

    def layer(self, key: str) -> str:
        """Which layer says `key`: `--via`, `--set`, `profile NAME`, or `` for the file and the defaults."""
        said = self.loaded.origins.of(key)
        if said.startswith("--"):
            return said.split()[0]
        return " ".join(said.split()[:2]) if said.startswith("profile ") else ""

    def strength(self, key: str) -> int:
        """Of the layer that says `key`: 0 the file and the defaults, 1 a profile, 2 the command line."""
        layer = self.layer(key)
        return 2 if layer.startswith("--") else 1 if layer else 0


def stage_dir(stage: str) -> str:
    """The stage's folder in the run directory, as a plan string."""
    return f"{RUN_DIR}/stages/{stage}"


def work_dir(stage: str) -> str:
    """The directory in which the stage runs, as a plan string."""
    return f"{stage_dir(stage)}/work"


def counted(number: int, word: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
