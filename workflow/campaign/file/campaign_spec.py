"""What the user wrote in a campaign file, as frozen models. Unknown keys are refused.

How trials follow from it is decided in `workflow.campaign.file.trials`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from workflow.report_figures import Better
from workflow.spec.json_schema import DRAFT, tidy
from workflow.spec.models.allocation_request import JobRequest
from workflow.spec.models.pipeline import Name
from workflow.spec.models.units import MOST_REPETITIONS, Duration, Nodes, Share, Spec

SCALE = "scale"
SCALES = "scales"
PROFILE = "profile"
"""The key of a campaign that names a profile of the pipeline, rather than one of its keys."""
SITE = "site."
"""Begins the keys of a campaign that are keys of the site file."""
Scaling = Literal["strong", "weak", "none"]
Values = Annotated[list[Any], Field(min_length=1)]
Label = Annotated[str, Field(min_length=1, max_length=30, pattern=r"^[^.=\s][^.=\x00-\x1f]*$")]
_SETTINGS = "keys of the pipeline, as for `--set`, or `site.KEY`, with their values"


class RunOrder(Spec):
    """In which order the repetitions run."""

    by: Literal["blocks", "file"] = Field(
        "blocks",
        description="blocks: every trial once in random order, then every trial again, so that a slow drift of the "
        "machine affects all alike; file: as written, all repetitions of a trial together",
    )
    seed: int = Field(0, ge=0, description="seed of the random order")


class Budget(Spec):
    """What the campaign may cost. No repetition starts when it would exceed it."""

    time: Duration | None = Field(None, examples=["30 min"], description="total wall time of all repetitions")
    node_hours: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="total of nodes × time of all repetitions"
    )


class JobsRequest(JobRequest):
    """The batch jobs of a campaign that is started on a login node. Keys other than `nodes`, `time`, `mode` and `count`
    mean the same as in `allocation:`."""

    mode: Literal["pilots", "each"] = Field(
        "pilots",
        description="pilots: jobs that run many repetitions each, on nodes of their own; each: a job per repetition",
    )
    count: int = Field(1, ge=1, le=1000, description="largest number of pilots at the same time")
    nodes: Nodes | None = Field(None, description="nodes of each pilot (default: as many as the largest trial needs)")
    walltime: Duration | None = Field(
        None, alias="time", description="of each job (default: 30 min, or what the queue allows)", examples=["2 h"]
    )


class Baseline(Spec):
    """The trials without I/O that `perceived_throughput` needs."""

    set_: dict[str, Any] = Field(alias="set", min_length=1, description=_SETTINGS)


class Metric(Spec):
    """A metric: one figure that is measured."""

    of: str = Field(
        description="a figure of the report: `run.wall_s`, `stages.NAME.compute_s`, `streams.NAME.throughput`, …",
        examples=["streams.field.throughput"],
    )
    label: Label | None = Field(
        None, examples=["rate of loading"], description="what pictures and headings call it (default: its name)"
    )
    better: Better | None = Field(None, description="whether less or more of it is better (default: by the figure)")
    unit: str | None = Field(
        None,
        min_length=1,
        max_length=20,
        examples=["B/s"],
        description="unit, for a figure that the program measures itself",
    )
    threshold: Share | None = Field(
        None,
        description="smallest relative difference that matters in practice (default: `threshold` of the campaign)",
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
    """A comparison of trials that differ in one key only."""

    vary: str = Field(
        description="a key of the matrix, of `zip` or of `include`; keys of `zip` that change with it count as the "
        "same key",
        examples=["streams.field.via"],
    )
    against: Any = Field(None, description="the value with which each other value is compared (default: the first)")
    metrics: list[Name] | None = Field(None, min_length=1, description="names of metrics (default: all)")


class SearchRequest(Spec):
    """A search for the best trial: all run once, the better half runs again, and so on until two are left."""

    over: list[str] = Field(
        min_length=1,
        examples=[["stages.NAME.ranks", "streams.NAME.via"]],
        description="keys of the matrix whose best values are searched; for each combination of the others there is "
        "a search of its own",
    )
    best: str = Field(description="the figure that decides, as in `metrics`", examples=["stages.NAME.step_s"])
    better: Better | None = Field(None, description="whether less or more of it is better (default: by the figure)")
    trials: int = Field(
        ge=1, description="largest number of measured repetitions of a search, those of all its trials together"
    )


class CampaignSpec(Spec):
    """A set of trials of one pipeline, and what to learn from them."""

    wf: Literal[1] = Field(description="version of this file format")
    campaign: Name = Field(description="the name of its directory below `campaigns/`")
    description: str = Field("", description="text for people, shown at the top of the report")
    pipeline: str = Field(min_length=1, description="the pipeline file, relative to this file")
    profiles: list[Name] = Field([], description="profiles of the pipeline that apply to all trials")
    site: str | None = Field(None, min_length=1, description="the machine (default: that of the pipeline)")
    set_: dict[str, Any] = Field({}, alias="set", description=f"of all trials: {_SETTINGS}")
    matrix: dict[str, Values] = Field(
        {},
        examples=[{"stages.NAME.ranks": [1, 2, 4]}],
        description="key of the pipeline → its values; every combination is a trial. `site.KEY` is a key of the site "
        "file, `profile` names a profile of the pipeline",
    )
    zip_: dict[str, Values] = Field(
        {},
        alias="zip",
        examples=[{"stages.NAME.ranks": [1, 2], "stages.NAME.with.size": [64, 80]}],
        description="keys that change together: their first values, then their second, …; combined with the matrix",
    )
    include: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(
        [], examples=[[{"stages.NAME.ranks": 8}]], description=f"one more trial each: {_SETTINGS}"
    )
    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(
        [],
        examples=[[{"stages.NAME.ranks": 8}]],
        description="trials to leave out: for each entry, those that have all its values",
    )
    scales: dict[Name, dict[str, Any]] = Field(
        {},
        description="named overlays of keys of this file: mappings are merged key by key, other values replaced",
    )
    scale: Name | None = Field(None, description="the scale to apply; `--set scale=NAME` chooses another one")
    repetitions: int = Field(
        10,
        ge=1,
        le=MOST_REPETITIONS,
        description="measured repetitions of each trial; an interval needs 6; 8 or more are recommended",
    )
    warmup: int = Field(1, ge=0, le=1000, description="repetitions of each trial that run first and are not measured")
    order: RunOrder = Field(default_factory=lambda: RunOrder(), description="in which order the repetitions run")
    side_by_side: Literal["nodes", "cores", "no"] = Field(
        "nodes",
        description="what each repetition has for itself when several run at the same time. nodes: its nodes; cores: "
        "its cores, so that small repetitions can share a node and may disturb each other; no: only one runs at a time",
    )
    jobs: JobsRequest = Field(
        default_factory=lambda: JobsRequest(), description="the batch jobs, if the campaign is started on a login node"
    )
    expected: Duration | None = Field(
        None, examples=["20 s"], description="how long a repetition takes, for `wf campaign plan` and the budget"
    )
    deadline: Duration = Field(
        600.0,
        examples=["10 min"],
        description="longest time of a repetition; one that takes longer is killed and counts as failed",
    )
    retries: int = Field(1, ge=0, le=100, description="how often a failed repetition is tried again")
    keep: Literal["all", "records"] = Field(
        "all",
        description="what is kept of a successful repetition. all: everything; records: the data that its stages wrote "
        "are removed, all but `figures.json`; wf's records and the logs stay",
    )
    budget: Budget = Field(default_factory=lambda: Budget(), description="what the campaign may cost")
    baseline: Baseline | None = Field(None, description="the trials without I/O that `perceived_throughput` needs")
    metrics: Annotated[dict[Name, MetricOrText], Field(min_length=1)] = Field(
        default_factory=lambda: {"time": Metric(of="run.wall_s")},
        description="what is measured, by name: `NAME: FIGURE` (default: `time: run.wall_s`)",
    )
    labels: dict[str, Label] = Field(
        {},
        examples=[{"stages.producer.env.PLANES": "planes"}],
        description="key that varies → what pictures and tables call it (default: its last word)",
    )
    threshold: Share = Field(
        0.05, description="smallest relative difference between two medians that matters in practice"
    )
    scaling: Scaling | None = Field(
        None,
        description="the ideal line in pictures over `stages.NAME.ranks`. strong: the total work is the same for all "
        "numbers of ranks; weak: the work of each rank is the same; none: no line (default: weak where a parameter "
        "of the component is in `zip` with the ranks "
        "and grows with them, or the component has its sizes per rank; strong otherwise)",
    )
    comparisons: list[ComparisonRequest] = Field(
        [],
        examples=[[{"vary": "stages.NAME.ranks"}]],
        description="what the report decides: faster, slower, the same, or undecided",
    )
    search: SearchRequest | None = Field(
        None,
        examples=[{"over": ["stages.NAME.ranks"], "best": "stages.NAME.step_s", "trials": 40}],
        description="run trials of the matrix only as long as they may be the best one",
    )


def campaign_schema() -> dict[str, Any]:
    """The JSON Schema of the campaign file, draft 2020-12, for editors."""
    schema = CampaignSpec.model_json_schema(by_alias=True)
    tidy(schema)
    schema["properties"]["scales"] = _scales(schema)
    return {"$schema": DRAFT, **schema, "title": "wf campaign"}


def _scales(schema: dict[str, Any]) -> dict[str, Any]:
    """A scale has the keys of the file; what is below them may be any part of it."""
    scale = {key: True for key in schema["properties"] if key not in ("wf", SCALE, SCALES)}
    section = schema["properties"][SCALES]
    pattern = next(iter(section["patternProperties"]))
    overlay = {"type": "object", "properties": scale, "additionalProperties": False}
    return {**section, "patternProperties": {pattern: overlay}}
