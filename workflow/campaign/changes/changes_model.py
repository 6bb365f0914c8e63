"""What changed between two campaigns, as frozen models: `wf campaign compare --json`. None means not known."""

from typing import Literal

from pydantic import Field

from workflow.campaign.results.results_model import MetricFacts, ResultsPart, TrialResult
from workflow.campaign.statistics import Test
from workflow.campaign.verdicts import Decision


class FactChange(ResultsPart):
    """Something about the two campaigns as a whole: where, when and with what they were measured."""

    fact: str
    base: str
    new: str


class SideMedian(ResultsPart):
    """One metric of one trial in one of the two campaigns."""

    count: int = Field(description="measured repetitions that succeeded and have a value")
    undefined: int = Field(0, description="repetitions without a value, because they were not slower than the baseline")
    median: float | None
    low: float | None = Field(description="bounds of the 95 % interval of the median; None below 6 values")
    high: float | None

    @classmethod
    def of(cls, result: TrialResult | None) -> "SideMedian":
        """Of a trial; None: this side did not measure it."""
        if result is None:
            return cls(count=0, median=None, low=None, high=None)
        return cls(
            count=len(result.values),
            undefined=result.undefined,
            median=result.median,
            low=result.low,
            high=result.high,
        )


class TrialChange(ResultsPart):
    """One metric of a trial that both campaigns have."""

    parameters: dict[str, object]
    metric: str
    base: SideMedian
    new: SideMedian
    ratio: float | None = Field(
        description="new ÷ base; in pairs: the median of the ratios within the blocks; by ranks: of the medians"
    )
    low: float | None = Field(description="bounds of the ratio's 95 % interval; None below 6 values a side")
    high: float | None
    test: Test | None = Field(
        None,
        description="pairs: the sign test over the blocks of a gate; ranks: the larger p of Mann–Whitney's test and of "
        "Welch's of the logarithms; None: not tested",
    )
    p: float | None = Field(description="of the test, two-sided; None where it was not tested")
    corrected_p: float | None = Field(description="after Holm's correction for everything that is compared")
    decision: Decision = Field(description="of the new campaign; faster means better, whatever the metric is")
    reason: str = Field("", description="why it is undecided, where that is more than noise")


class UnmatchedTrial(ResultsPart):
    """A trial that only one of the campaigns has."""

    side: Literal["base", "new"]
    parameters: dict[str, object]


class CampaignChanges(ResultsPart):
    """The differences between two campaigns."""

    changes_version: int = 1
    base: str = Field(description="as it was named on the command line")
    new: str
    facts: list[FactChange] = Field(description="facts that are known about both campaigns, whether they differ or not")
    metrics: list[MetricFacts] = Field(description="those compared; `threshold` is the tolerance")
    changes: list[TrialChange]
    unmatched: list[UnmatchedTrial]
    unmatched_metrics: dict[str, Literal["base", "new"]] = Field(
        description="metrics that only one of the campaigns has; empty if metrics were chosen"
    )
    notes: list[str] = Field(description="what to consider when reading these numbers")
