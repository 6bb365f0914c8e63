"""What changed between two campaigns, as frozen models: `wf campaign compare --json`. None means not known."""

from typing import Literal

from pydantic import Field

from workflow.campaign.results.results_model import ComparisonResult, MetricFacts, ResultsPart


class FactChange(ResultsPart):
    """Something about the two campaigns as a whole: where, when and with what they were measured."""

    fact: str
    base: str
    new: str


class UnmatchedTrial(ResultsPart):
    """A trial that only one of the campaigns has."""

    side: Literal["base", "new"]
    parameters: dict[str, object]


class CampaignChanges(ResultsPart):
    """The differences between two campaigns."""

    changes_version: int = 1
    base: str = Field(description="as it was named on the command line")
    new: str
    facts: list[FactChange] = Field(description="facts that are known about both, whether they differ or not")
    metrics: list[MetricFacts] = Field(description="those compared; `threshold` is the tolerance")
    changes: list[ComparisonResult] = Field(
        description="every metric of every trial that both have; `against` is the base, `at` the trial"
    )
    unmatched: list[UnmatchedTrial]
    unmatched_metrics: dict[str, Literal["base", "new"]] = Field(
        description="metrics that only one of the campaigns has"
    )
    notes: list[str] = Field(description="what to consider when reading these numbers")
