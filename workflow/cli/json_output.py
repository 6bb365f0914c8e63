"""What `--json` of `wf check`, `components`, `sites`, `runs`, `clean` and `campaign plan` prints, as models.

`wf status` and `wf report` print a `Report`, `wf compare` a `Comparison`. All are listed in docs/reference/json.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.errors import Problem, Severity
from workflow.plan.plan_model import Plan
from workflow.report.report_model import RunLine, RunVerdict
from workflow.run.records.run_notes import RunNote
from workflow.site.load_site import KnownSite
from workflow.spec.models.component import Component

if TYPE_CHECKING:
    from workflow.campaign.planning.campaign_size import CampaignSize
    from workflow.campaign.planning.planned_trials import PlannedCampaign


class JsonDocument(BaseModel):
    """Settings of all documents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_json(self) -> str:
        """The text that is printed."""
        return self.model_dump_json(indent=2) + "\n"


class ProblemPart(JsonDocument):
    """An error, a warning or a note. Parts that it does not have are null."""

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
        description="names of the stages, including those that wf adds; null if mistakes prevent a plan"
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


class SiteLine(BaseModel):
    """One site. null: not known, or left by its file to the machine where wf runs."""

    model_config = ConfigDict(frozen=True)

    name: str
    here: bool = Field(description="whether this machine belongs to it")
    files: list[str] = Field(description="the one that counts first")
    summary: str | None = Field(description="null if the file has mistakes")
    nodes: int | None
    cores_per_node: int | None
    usable_cores: int | None = Field(description="cores of a node that stages may get")
    gpus_per_node: int | None
    scheduler: str | None
    problems: list[ProblemPart] = Field(description="what is wrong in its file")

    @classmethod
    def of(cls, site: KnownSite) -> SiteLine:
        """The line of a site."""
        file = site.file
        cores = file.cores_per_node if file is not None and file.cores_per_node != "auto" else None
        return cls(
            name=site.name,
            here=site.is_here,
            files=[str(path) for path in site.files],
            summary=None if file is None else file.summary,
            nodes=file.nodes if file is not None and file.nodes != "auto" else None,
            cores_per_node=cores,
            usable_cores=None if cores is None or file is None else cores - len(file.reserved_cores),
            gpus_per_node=None if file is None else file.gpus_per_node,
            scheduler=None if file is None else file.scheduler,
            problems=[ProblemPart.of(problem) for problem in site.problems],
        )


class SiteList(JsonDocument):
    """The sites that have a file here, by name."""

    sites_version: Literal[1] = 1
    sites: list[SiteLine]

    @classmethod
    def of(cls, sites: Sequence[KnownSite]) -> SiteList:
        """The list of these sites."""
        return cls(sites=[SiteLine.of(site) for site in sites])


class RunList(JsonDocument):
    """The runs below `runs/` and those with `--run-dir` that were started in this folder, the newest first."""

    runs_version: Literal[1] = 1
    runs: list[RunLine]


class NoteList(JsonDocument):
    """The tags and notes of a run, the oldest first."""

    notes_version: Literal[1] = 1
    run: str = Field(description="name of the run directory")
    tags: list[str]
    notes: list[RunNote]


class CleanedRun(JsonDocument):
    """A run, and what was done with it."""

    name: str = Field(description="name of the run directory")
    directory: str
    state: RunVerdict
    bytes: int = Field(description="on disk; 0 where they cannot be counted")
    action: Literal["removed", "would_remove", "stays"]
    reason: str = Field("", description="why it stays")


class CleanResult(JsonDocument):
    """The runs that were looked at, the newest first."""

    clean_version: Literal[1] = 1
    removed_bytes: int = Field(description="bytes of all runs that were removed")
    runs: list[CleanedRun]


class PlannedTrial(JsonDocument):
    """A trial of a campaign, as it would run."""

    trial: str | None = Field(description="its content key; null where it cannot run")
    parameters: dict[str, object] = Field(description="the values that vary")
    baseline: bool = Field(False, description="whether it is the trial without I/O that `perceived_throughput` needs")
    stages: int | None = Field(None, description="null where it cannot run")
    nodes: int | None = Field(None, description="null where it cannot run")
    problems: list[ProblemPart] = Field([], description="why it cannot run")


class CampaignPlan(JsonDocument):
    """The trials of a campaign, with the time and cost of those that are not finished. null: not known."""

    campaign_plan_version: Literal[1] = 1
    campaign: str
    ok: bool = Field(description="whether there is no error")
    repetitions: int = Field(description="of all trials that can run, those for warm-up included; of a search at most")
    finished: int | None = Field(description="repetitions that need not run")
    left: int | None = Field(description="repetitions that are not finished")
    at_once: int | None = Field(description="how many of these would run at the same time; null if the queue decides")
    time_s: float | None = Field(
        description="total time of these, without the time in the queue; where several run at once, at least so long"
    )
    node_hours: float | None = Field(
        description="cost of these; where several run at once, with no node ever idle; of a search, as if its largest "
        "trials went on"
    )
    known_by: Literal["measured", "expected", "deadline"] | None = Field(
        description="what time and cost are based on; deadline: they are not known"
    )
    trials: list[PlannedTrial] = Field(description="those that can run first")
    problems: list[ProblemPart] = Field(description="errors, warnings and notes on the campaign as a whole")

    @classmethod
    def of(cls, planned: PlannedCampaign, size: CampaignSize | None, problems: Sequence[Problem]) -> CampaignPlan:
        """The plan as it is printed for people; `size`: None where nothing can run."""
        from workflow.campaign.campaign_advice import expected_cost

        ready = [
            PlannedTrial(
                trial=trial.key,
                parameters=dict(trial.trial.parameters),
                baseline=trial.is_baseline,
                stages=len(trial.plan.stages),
                nodes=trial.nodes,
            )
            for trial in planned.ready
        ]
        refused = [
            PlannedTrial(
                trial=None,
                parameters=dict(trial.trial.parameters),
                problems=[ProblemPart.of(problem) for problem in trial.problems],
            )
            for trial in planned.refused
        ]
        # The deadline is what a run may take, not what it will take.
        known = size is not None and size.known_by != "deadline"
        in_queue = size is not None and size.pilots.job_each
        return cls(
            campaign=planned.spec.campaign,
            ok=not refused and not any(problem.level == "error" for problem in problems),
            repetitions=expected_cost(planned).repetitions,
            finished=size.finished if size is not None else None,
            left=size.left if size is not None else None,
            at_once=size.at_once if size is not None and not in_queue else None,
            time_s=size.time_s if size is not None and known and not in_queue else None,
            node_hours=size.node_s / 3600 if size is not None and known else None,
            known_by=size.known_by if size is not None else None,
            trials=[*ready, *refused],
            problems=[ProblemPart.of(problem) for problem in problems],
        )
