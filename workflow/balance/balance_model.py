"""What `wf balance` found, as frozen models: `balance.json`, and a line of `probes.jsonl` for each run.

Times are seconds, sizes bytes.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.forecast.quartiles import Estimate

BALANCE_VERSION = 1
BALANCE_FILE, OVERLAY_FILE = "balance.json", "overlay.yaml"
Goal = Literal["time", "node-hours"]


class BalancePart(BaseModel):
    """Settings of all models of a balance."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProbeRecord(BalancePart):
    """A short run of one candidate."""

    key: str = Field(description="checksum of what was run: its plan, but for the number of steps, and the pipeline")
    settings: dict[str, Any] = Field(description="key → value, laid over the pipeline; empty: today's")
    run: str = Field(description="name of its run directory below `runs/`")
    steps: int = Field(description="of the stage that is counted")
    pace_s: float | None = Field(description="between two of its steps, without its first ones; None: not known")
    span_s: float | None = Field(description="from the first step to the last one of any stage, per step")
    wall_s: float = Field(description="of the whole run")
    reason: str = Field("", description="why it failed")
    counts: bool = Field(True, description="false: only its time does: it was interrupted, or too short to be timed")
    waits: dict[str, float] = Field({}, description="stage → share of its time in which it waited for others")


class BalancedCandidate(BalancePart):
    """One candidate, and what is known of it: estimates have bounds of 90 %."""

    settings: dict[str, Any] = Field(description="key → value, laid over the pipeline; empty: today's")
    probes: list[float] = Field(description="seconds per step of each run")
    seconds: Estimate = Field(description="per step")
    ratio: Estimate = Field(description="of what the goal counts, ÷ that of today's pipeline")
    forecast: float | None = Field(description="seconds per step before anything ran; None: not known")
    nodes: int
    queue_memory: int | None = Field(description="bytes that its queues may hold in all; None: not known")
    waits: dict[str, float] = Field({}, description="stage → share of its time in which it waited for others")
    took_s: float | None = Field(
        None, description="seconds per step of the newest part of a run that used it before another one took its place"
    )


class FailedCandidate(BalancePart):
    """A candidate that was planned, and failed when it ran."""

    settings: dict[str, Any]
    reason: str


class Balance(BalancePart):
    """The choice."""

    balance_version: int = BALANCE_VERSION
    pipeline: str
    site: str
    goal: Goal
    counted: str = Field(description="the stage whose steps are counted")
    keys: dict[str, list[Any]] = Field(description="key → the values that were tried; null: not written")
    paced: bool = Field(
        description="true: the times are those between two steps, because in all candidates all stages wait for each "
        "other; false: from the first step to the end, per step"
    )
    refused: list[str] = Field(description="`KEY=VALUE: why it cannot be planned`")
    candidates: int = Field(description="combinations of values that can be planned")
    today: BalancedCandidate
    limited_by: str | None = Field(
        None, description="what sets the pace of today's pipeline, by the forecast; null: not known"
    )
    chosen: BalancedCandidate
    others: list[BalancedCandidate] = Field(description="others that ran, the fastest first")
    decided: bool = Field(description="whether nothing is open")
    rivals: list[BalancedCandidate] = Field(
        description="those that may be faster than the chosen one by more than the tolerance; the pipeline as it is, "
        "where it is not certain that the chosen one is faster"
    )
    more_probes: int | None = Field(None, description="how many more runs it takes at least to decide; None: decided")
    more_s: float | None = Field(None, description="how long these take")
    more_node_hours: float | None = Field(None, description="and how many node-hours; null: without a budget of these")
    failed: list[FailedCandidate] = Field([])
    given_up: list[str] = Field([], description="`KEY=VALUE` with which candidates have failed, and none has run")
    probes: int = Field(description="how many ran, those of earlier calls included")
    spent_s: float = Field(description="wall time of these, and of runs that were interrupted or too short to be timed")
    spent_node_hours: float = Field(description="of the nodes that all these used")

    def to_json(self) -> str:
        """The text of `balance.json`."""
        return self.model_dump_json(indent=1) + "\n"
