"""What `--json` of `wf check`, `components` and `runs` prints, as models; docs/reference/json.md is made from them.

`wf status` and `wf report` print a `Report`, `wf compare` a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.errors import Problem, Severity
from workflow.plan.plan_model import Plan
from workflow.report.report_model import RunLine
from workflow.spec.models.component import Component


class JsonDocument(BaseModel):
    """Settings of all documents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_json(self) -> str:
        """The text that is printed."""
        return self.model_dump_json(indent=2) + "\n"


class ProblemPart(JsonDocument):
    """An error, a warning or a note. What it does not have is null."""

    level: Severity = Field(description="error: nothing starts; warning: it may fail; note: good to know")
    file: str | None = Field(description="the file as it was named on the command line")
    option: str | None = Field(
        description="the option that is wrong, e.g. `--set stages.md.ranks=0`, in place of a file"
    )
    line: int | None = Field(description="from 1")
    column: int | None = Field(description="in characters, from 1")
    key: str | None = Field(description="the key, e.g. `streams.atoms.queue.limit`")
    message: str = Field(description="what is wrong")
    hint: str | None = Field(description="what to type next")

    @classmethod
    def of(cls, problem: Problem) -> ProblemPart:
        """The same message, as it is printed for people."""
        option = problem.source.startswith("--")
        return cls(
            level=problem.level,
            file=None if option else problem.source or None,
            option=problem.source if option else None,
            line=problem.line or None,
            column=problem.column or None,
            key=problem.key or None,
            message=problem.message,
            hint=problem.hint or None,
        )


class CheckResult(JsonDocument):
    """All messages about a pipeline file."""

    check_version: Literal[1] = 1
    pipeline: str = Field(description="the file as it was named on the command line")
    ok: bool = Field(description="whether there is no error")
    stages: list[str] | None = Field(
        description="names of the stages, those that wf adds included; null where mistakes allow no plan"
    )
    streams: list[str] | None = Field(description="names of the streams; null as for stages")
    problems: list[ProblemPart] = Field(description="in the order of the file where there are errors")

    @classmethod
    def of(cls, pipeline: Path, plan: Plan | None, problems: Sequence[Problem]) -> CheckResult:
        """The result for these messages; `plan` is None when there is none."""
        return cls(
            pipeline=str(pipeline),
            ok=not any(problem.level == "error" for problem in problems),
            stages=None if plan is None else [stage.name for stage in plan.stages],
            streams=None if plan is None else [stream.name for stream in plan.streams],
            problems=[ProblemPart.of(problem) for problem in problems],
        )


class ComponentList(JsonDocument):
    """The components, as their files describe them."""

    components_version: Literal[1] = 1
    components: list[Component]


class RunList(JsonDocument):
    """The runs below `runs/`, the newest first."""

    runs_version: Literal[1] = 1
    runs: list[RunLine]
