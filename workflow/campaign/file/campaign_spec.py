"""What the user wrote in a campaign file, as frozen models. Unknown keys are refused.

How trials follow from it is decided in `workflow.campaign.file.trials`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from workflow.report_figures import Better
from workflow.spec.models.allocation_request import AllocationRequest
from workflow.spec.models.pipeline import Name
from workflow.spec.models.units import Duration, Spec

Scaling = Literal["strong", "weak", "none"]
Values = Annotated[list[Any], Field(min_length=1)]
_SETTINGS = "keys of the pipeline, as `--set` takes them, or `site.KEY`, with their values"


class RunOrder(Spec):
    """In which order the repetitions run."""

    by: Literal["blocks", "file"] = Field(
        "blocks",
        description="blocks: every trial once in random order, then every trial again, so that a slow drift of the "
        "machine affects all alike; file: as written, all repetitions of a trial together",
    )
    seed: int = Field(0, ge=0, description="of the random order; another one gives another order")


class Budget(Spec):
    """What the campaign may cost. No repetition starts when it would exceed it."""

    time: Duration | None = Field(None, examples=["30 min"], description="wall time of all repetitions together")
    node_hours: float | None = Field(None, gt=0, allow_inf_nan=False, description="nodes × time, of all repetitions")


class JobsRequest(AllocationRequest):
    """The batch jobs of a campaign that is started on a login node; all other keys are those of `allocation:`."""

    mode: Literal["pilots", "each"] = Field(
        "pilots",
        description="pilots: jobs that run many repetitions each, on nodes of their own; each: a job per repetition",
    )
    count: int = Field(1, ge=1, le=1000, description="pilots at the same time, at most")
    nodes: Annotated[int, Field(ge=1)] | None = Field(
        None, description="of each pilot (default: those of the largest trial)"
    )
    walltime: Duration | None = Field(
        None, alias="time", description="of each job (default: 30 min, or what the queue allows)", examples=["2 h"]
    )


class Baseline(Spec):
    """The same trials without I/O, for `perceived_throughput`."""

    set_: dict[str, Any] = Field(alias="set", min_length=1, description=_SETTINGS)


class Metric(Spec):
    """One thing that is measured."""

    of: str = Field(
        description="a figure of the report: `run.wall_s`, `stages.NAME.compute_s`, `streams.NAME.throughput`, …",
        examples=["streams.field.throughput"],
    )
    better: Better | None = Field(None, description="whether less or more of it is better (default: by the figure)")
    unit: str | None = Field(
        None, min_length=1, max_length=20, examples=["B/s"], description="of a figure of the program's own"
    )
    threshold: float | None = Field(
        None, gt=0, lt=1, description="smallest relative difference that matters (default: that of the campaign)"
    )


def _figure(value: Any) -> Any:
    """A text stands for `{of: text}`."""
    return {"of": value} if isinstance(value, str) else value


class _OrText:
    """What editors and the reference learn of the short form."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


MetricOrText = Annotated[Metric, BeforeValidator(_figure), _OrText()]


class ComparisonRequest(Spec):
    """A comparison between the trials that differ in one key only."""

    vary: str = Field(
        description="a key of the matrix, of `zip` or of `include`; keys of `zip` that change with it count as the "
        "same key",
        examples=["streams.field.via"],
    )
    against: Any = Field(None, description="the value with which each other value is compared (default: the first)")
    metrics: list[Name] | None = Field(None, min_length=1, description="names of metrics (default: all)")


class CampaignSpec(Spec):
    """A set of trials of one pipeline, and what to learn from them."""

    wf: Literal[1] = Field(description="version of this file format")
    campaign: Name = Field(description="the name of its directory below `campaigns/`")
    description: str = Field("", description="for people; the first lines of the report")
    pipeline: str = Field(min_length=1, description="the pipeline file, relative to this file")
    profiles: list[Name] = Field(default_factory=list, description="profiles of the pipeline that all trials have")
    site: str | None = Field(None, min_length=1, description="the machine (default: that of the pipeline)")
    set_: dict[str, Any] = Field(default_factory=dict, alias="set", description=f"of all trials: {_SETTINGS}")
    matrix: dict[str, Values] = Field(
        default_factory=dict,
        examples=[[1, 2, 4]],
        description="key of the pipeline → its values; every combination is a trial. `site.KEY` is a key of the site "
        "file, `profile` names a profile of the pipeline",
    )
    zip_: dict[str, Values] = Field(
        default_factory=dict,
        alias="zip",
        examples=[[1, 2, 4]],
        description="keys that change together: their first values, then their second, …; combined with the matrix",
    )
    include: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(
        default_factory=list, description=f"one more trial each: {_SETTINGS}"
    )
    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(
        default_factory=list, description="trials to leave out: those that have all these values"
    )
    scales: dict[Name, dict[str, Any]] = Field(
        default_factory=dict,
        description="named overlays of keys of this file: mappings are merged key by key, other values replaced",
    )
    scale: Name | None = Field(None, description="the scale to apply; `--set scale=NAME` chooses another one")
    repetitions: int = Field(
        10, ge=1, le=10_000, description="measured repetitions of each trial; an interval needs 6, and 8 are advised"
    )
    warmup: int = Field(1, ge=0, le=1000, description="repetitions of each trial before these, not measured")
    order: RunOrder = Field(default_factory=RunOrder, description="in which order the repetitions run")
    side_by_side: Literal["nodes", "cores", "no"] = Field(
        "nodes",
        description="what a repetition does not share with those that run at the same time. nodes: its nodes; cores: "
        "its cores, so that small repetitions share a node and disturb each other; no: one runs at a time",
    )
    jobs: JobsRequest = Field(
        default_factory=lambda: JobsRequest(), description="the batch jobs, if the campaign is started on a login node"
    )
    expected: Duration | None = Field(
        None, examples=["20 s"], description="how long a repetition takes, for `wf campaign plan` and the budget"
    )
    deadline: Duration = Field(
        600.0, examples=["10 min"], description="kills a repetition that takes longer; it then counts as failed"
    )
    retries: int = Field(1, ge=0, le=100, description="how often a failed repetition is tried again")
    keep: Literal["records", "all"] = Field(
        "records",
        description="what is kept of a successful repetition: wf's records and the output of the stages, or also the "
        "data that the stages wrote",
    )
    budget: Budget = Field(default_factory=lambda: Budget(), description="what the campaign may cost")
    baseline: Baseline | None = Field(None, description="the same trials without I/O, for `perceived_throughput`")
    metrics: Annotated[dict[Name, MetricOrText], Field(min_length=1)] = Field(
        default_factory=lambda: {"time": Metric(of="run.wall_s")},
        description="what is measured, by a name each: `NAME: FIGURE` (default: `time: run.wall_s`)",
    )
    threshold: float = Field(
        0.05, gt=0, lt=1, description="smallest relative difference of two medians that matters in practice"
    )
    scaling: Scaling | None = Field(
        None,
        description="the ideal line of pictures over `stages.NAME.ranks`. strong: the same work for more ranks; weak: "
        "as much for each; none: no line (default: weak where a parameter of the component is in `zip` with the ranks "
        "and grows with them, strong where none is)",
    )
    comparisons: list[ComparisonRequest] = Field(
        default_factory=list, description="what the report decides: faster, slower, the same, or undecided"
    )
