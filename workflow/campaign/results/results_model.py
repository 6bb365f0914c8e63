"""What a campaign found, as frozen models: report.json of its directory.

Times are seconds, sizes bytes, rates bytes per second. None means too few values, or not known.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.statistics import Test
from workflow.campaign.verdicts import Decision
from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, EXIT_VIOLATED
from workflow.report_figures import Better

Operation = Literal["compute", "device", "io", "wait"]
SearchDecision = Literal["found", "undecided", "unfinished", "none"]
CampaignState = Literal["running", "complete", "failed", "unfinished", "lost", "unreadable"]
# Load average per core above which the report says so.
BUSY = 2.0
DECIDED = ("faster", "slower")


class ResultsPart(BaseModel):
    """Settings of all parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MetricFacts(ResultsPart):
    """What a metric measures."""

    name: str
    of: str = Field(description="the figure of the report")
    unit: str
    better: Better
    threshold: float = Field(description="smallest relative difference that matters")
    label: str = Field("", description="what pictures and headings call it; empty: its name")

    @property
    def title(self) -> str:
        """What it is called in pictures and headings."""
        return self.label or self.name


class TrialResult(ResultsPart):
    """One metric of one trial."""

    trial: str = Field(description="content key")
    parameters: dict[str, object]
    metric: str
    values: list[float] = Field(description="of the measured repetitions that succeeded, in their order")
    repetitions: list[int] = Field(
        [],
        description="the number of the repetition of each value; repetitions with the same number are a block",
    )
    outliers: list[bool] = Field(description="which of these are far from the others; they are not removed")
    undefined: int = Field(
        0,
        description="repetitions that are not in `values` because they were not slower than the baseline: their "
        "perceived throughput is higher than that of the others, so `median` is a lower bound and there is no verdict",
    )
    median: float | None
    low: float | None = Field(description="bounds of the 95 % interval of the median; None below 6 values")
    high: float | None

    @property
    def is_whole(self) -> bool:
        """Whether there are values, and none was left out for being what it is: then it can be compared."""
        return bool(self.values) and not self.undefined

    def pairs_with(self, other: "TrialResult") -> list[tuple[float, float]]:
        """The values of both from each block that has both."""
        theirs = dict(zip(other.repetitions, other.values, strict=True))
        mine = zip(self.repetitions, self.values, strict=True)
        return [(value, theirs[number]) for number, value in mine if number in theirs]


class ComparisonResult(ResultsPart):
    """One metric of two trials that differ in one key, or in keys of `zip` that change together; or of one trial in two
    campaigns."""

    metric: str
    vary: str
    value: object = Field(description="of the key `vary`")
    against: object = Field(description="the value that it is compared with")
    at: dict[str, object] = Field(description="the values of the other keys, which both have")
    count: int
    count_against: int
    median: float | None = Field(None, description="of the measured repetitions; None where there are none")
    median_against: float | None = None
    ratio: float | None = Field(
        description="in pairs: the median of the ratios within the blocks; by ranks: `median` ÷ `median_against`"
    )
    low: float | None = Field(description="bounds of the ratio's 95 % interval; None below 6 values a side")
    high: float | None
    test: Test | None = Field(
        None,
        description="pairs: the sign test over the blocks; ranks: Mann–Whitney's, and Welch's of the logarithms; None: "
        "not tested",
    )
    p: float | None = Field(description="of the test, two-sided; None where it was not tested")
    corrected_p: float | None = Field(description="after Holm's correction for all comparisons of this report")
    decision: Decision = Field(description="faster means better, whatever the metric is")
    reason: str = Field("", description="why it is undecided, where that is more than noise")
    in_turns: bool | None = Field(
        None,
        description="whether the repetitions of both trials were interleaved, so that a drift of the machine affected "
        "both alike; false: no verdict; null: not known",
    )


class SearchResult(ResultsPart):
    """What a search has found among trials that differ in the keys that are searched only."""

    metric: str
    at: dict[str, object] = Field(description="the values of the other keys, which all have")
    trials: int
    repetitions: int = Field(description="of all of them together, those that are to run now included")
    left: list[dict[str, object]] = Field(
        description="the values of the trials that can be the best one, the best first as far as is known"
    )
    decision: SearchDecision = Field(
        description="found: the first of `left` is the better of the last two, or all others failed; none: all failed, "
        "or have no such figure"
    )
    reason: str = Field("", description="why it is undecided, or was found without a comparison")
    ratio: float | None = Field(None, description="of the last two: the median of the ratios within the blocks")
    low: float | None = Field(None, description="bounds of its 95 % interval")
    high: float | None = None


def certain(compared: Iterable[ComparisonResult]) -> list[ComparisonResult]:
    """Those that are faster or slower, the largest difference first."""
    decided = [(each, abs(math.log(each.ratio))) for each in compared if each.ratio and each.decision in DECIDED]
    return [each for each, _ in sorted(decided, key=lambda pair: -pair[1])]


class OperationTimes(ResultsPart):
    """How long one stage of one trial did one thing."""

    stage: str
    operation: Operation = Field(
        description="`compute_s`, … of the report of a run; `device` where copies to or from one were made"
    )
    trial: str
    parameters: dict[str, object]
    values: list[float] = Field(description="of the measured repetitions that succeeded, in their order")


class TrialViolation(ResultsPart):
    """An expectation of the pipeline that repetitions of a trial did not meet."""

    key: str = Field(description="of the pipeline file")
    place: str = Field(description="where it is written: `pipeline.yaml:14:9`, or the option")
    figure: str
    expected: str = Field(description="the condition as it was written: `> 1 GB/s`")
    limit: float = Field(description="its quantity, in `unit`")
    unit: str
    count: int = Field(description="measured repetitions that did not meet it")
    worst: float | None = Field(
        description="the measured value that is farthest from the limit; None: nothing was measured"
    )
    why: str = Field("", description="why it was not measured, where the program of a stage was to measure it")
    run: str = Field(description="run directory of that repetition, below `runs/`")


class TrialCount(ResultsPart):
    """How far a trial is."""

    trial: str
    parameters: dict[str, object]
    is_baseline: bool
    succeeded: int = Field(description="of the measured repetitions that are wanted")
    failed: int
    wanted: int = Field(description="of a search: how many it has asked for up to now")
    violated: int = Field(0, description="of those that succeeded: how many did not meet an expectation")
    violations: list[TrialViolation] = Field([])
    reason: str = Field("", description="why the last failed repetition failed")


class DriverPart(ResultsPart):
    """The process that runs a campaign."""

    host: str
    pid: int
    alive: bool = Field(description="false: it has died, and no process runs the campaign now")


class RunningRepetition(ResultsPart):
    """A repetition that runs at the moment."""

    trial: str
    number: int
    warmup: bool
    attempt: int
    run: str = Field(description="name of its run directory below `runs/`")
    started: float = Field(description="Unix time")
    place: str = Field(description="its hosts and cores; empty if nothing runs beside it")


class CampaignStatus(ResultsPart):
    """How far a campaign is."""

    status_version: int = 1
    campaign: str
    site: str
    spent_s: float = Field(description="time of all repetitions so far, those that failed included")
    trials: list[TrialCount]
    options: list[str] = Field([], description="of the command line, kept from the last run")
    driver: DriverPart | None = Field(None, description="null: no process runs it now")
    running: list[RunningRepetition] = Field([], description="at the moment")
    notes: list[str] = Field([], description="finished repetitions that no longer belong to a trial, and why")

    @property
    def complete(self) -> bool:
        """Whether every measured repetition of every trial succeeded."""
        return all(trial.succeeded == trial.wanted for trial in self.trials)

    @property
    def violated(self) -> int:
        """How many measured repetitions have not kept an expectation of the pipeline."""
        return sum(trial.violated for trial in self.trials)

    @property
    def exit_code(self) -> int:
        """Of the verbs that run the campaign, or follow it to its end."""
        return EXIT_RUN_FAILED if not self.complete else EXIT_VIOLATED if self.violated else EXIT_OK


class CampaignLine(ResultsPart):
    """One campaign of `wf campaign list`."""

    name: str
    state: CampaignState = Field(
        description="failed: nothing is left to run, but some repetitions failed; unfinished: nobody runs it; lost: "
        "the process that ran it has died"
    )
    reason: str = ""
    succeeded: int = Field(0, description="measured repetitions")
    failed: int = 0
    violated: int = Field(0, description="of those that succeeded: how many did not meet an expectation")
    wanted: int = 0
    running: int = Field(0, description="repetitions at the moment")
    spent_s: float = Field(0.0, description="time of all repetitions so far")
    changed: float | None = Field(None, description="Unix time of the last entry")
    host: str = Field("", description="host of the process that runs it, or ran it last")
    site: str = ""


class CampaignList(ResultsPart):
    """The campaigns below `campaigns/`, the newest first."""

    campaigns_version: Literal[1] = 1
    campaigns: list[CampaignLine]


class CampaignResults(ResultsPart):
    """The results of a campaign."""

    results_version: int = 1
    campaign: str
    description: str
    site: str
    host: str
    cores: int = Field(0, description="cores that the campaign could use on this host; 0: not known")
    versions: dict[str, str]
    checksums: dict[str, str] = Field({}, description="campaign and pipeline → SHA-256 of the file")
    seed: int
    started: float | None = Field(description="Unix time of the first repetition")
    ended: float | None
    load: float | None = Field(description="median load average of the machine when repetitions started")
    trials: list[TrialCount]
    metrics: list[MetricFacts]
    results: list[TrialResult]
    operations: list[OperationTimes] = Field([], description="what the stages did with their time")
    scaling: Scaling | None = Field(None, description="of the campaign file, or of components sized per rank")
    labels: dict[str, str] = Field({}, description="key that varies → what pictures and tables call it")
    options: list[str] = Field([], description="of the command line, kept from the last run")
    comparisons: list[ComparisonResult]
    searches: list[SearchResult] = Field([], description="one for each combination of the keys that are not searched")
    notes: list[str] = Field(description="what to consider when reading these numbers")


def labelled_keys(results: CampaignResults) -> dict[str, str]:
    """Key that has a label → the key that ends with the label in place of its last word."""
    return {key: ".".join([*key.split(".")[:-1], label]) for key, label in results.labels.items()}


def with_labels(results: CampaignResults) -> CampaignResults:
    """The same for readers: the last word of each key that has a label is that label."""
    names = labelled_keys(results)

    def named(parameters: Mapping[str, object]) -> dict[str, object]:
        return {names.get(key, key): value for key, value in parameters.items()}

    return results.model_copy(
        update={
            "labels": {},
            "trials": [each.model_copy(update={"parameters": named(each.parameters)}) for each in results.trials],
            "results": [each.model_copy(update={"parameters": named(each.parameters)}) for each in results.results],
            "operations": [
                each.model_copy(update={"parameters": named(each.parameters)}) for each in results.operations
            ],
            "comparisons": [
                each.model_copy(update={"vary": names.get(each.vary, each.vary), "at": named(each.at)})
                for each in results.comparisons
            ],
            "searches": [
                each.model_copy(update={"at": named(each.at), "left": [named(its) for its in each.left]})
                for each in results.searches
            ],
        }
    )


def machine_is_busy(load: float | None, cores: int) -> bool | None:
    """Whether other programs used the machine: the runs seldom load it beyond its cores. None: not known."""
    return None if load is None or not cores else load > BUSY * cores
