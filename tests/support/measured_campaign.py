"""A campaign of two engines and two numbers of ranks, without any run: its file, its schedule, and its ledger."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.results_model import CampaignResults

TIMES = {("sst", 1): 10.0, ("sst", 2): 6.0, ("bp5", 1): 20.0, ("bp5", 2): 6.1}


def spec_of(**changed: object) -> CampaignSpec:
    given: dict[str, object] = {
        "wf": 1, "campaign": "c", "pipeline": "p.yaml", "repetitions": 8, "warmup": 1,
        "matrix": {"streams.d.via": ["sst", "bp5"], "stages.s.ranks": [1, 2]},
        "comparisons": [{"vary": "streams.d.via"}], **changed,
    }  # fmt: skip
    return CampaignSpec.model_validate_json(json.dumps(given))


def schedule_of() -> Schedule:
    trials = [
        ScheduledTrial(key=f"{via}{ranks}", parameters={"streams.d.via": via, "stages.s.ranks": ranks})
        for via, ranks in TIMES
    ]
    return Schedule(wf_version="1", site="local", host="h", versions={}, trials=trials)


def history_of(repetitions: int = 8, failed: tuple[str, int] | None = None) -> History:
    history = History()
    for (via, ranks), time in TIMES.items():
        key = f"{via}{ranks}"
        history.end(Repetition(key, 1, warmup=True), end(time * 9))
        for number in range(1, repetitions + 1):
            state = "failed" if failed == (key, number) else "succeeded"
            history.end(Repetition(key, number), end(time * (1 + 0.001 * number), state))
    return history


def end(time: float, state: str = "succeeded") -> Attempt:
    figures = {"run.wall_s": time, "stages.s.wall_s": time / 2, "streams.d.bytes": 1e9}
    if state == "succeeded":
        return Attempt("succeeded", 1, "r", 1e9, time, figures=figures)
    return Attempt("failed", 1, "r", 1e9, time, reason="why", figures=figures)


def three_dimensions() -> CampaignResults:
    """3 × 2 × 4 trials."""
    matrix: dict[str, list[object]] = {
        "streams.d.via": ["sst", "bp5", "shm"], "params.mode": ["fast", "slow"], "params.ms": [1, 5, 20, 100],
    }  # fmt: skip
    trials, history = [], History()
    for number, values in enumerate(product(*matrix.values())):
        trial = ScheduledTrial(key=f"{number:03d}", parameters=dict(zip(matrix, values, strict=True)))
        trials.append(trial)
        for repetition in range(1, 9):
            wall = (1 + number % 5) * (1 + repetition / 50)
            attempt = end(wall)
            more = {"stages.s.compute_s": wall * 0.7, "stages.s.io_s": wall * 0.2, "streams.d.throughput": 1e9 / wall}
            attempt = replace(attempt, figures={**attempt.figures, **more}, started=1000.0 * repetition + number)
            history.end(Repetition(trial.key, repetition), attempt)
    spec = spec_of(
        matrix=matrix, metrics={"time": "run.wall_s", "rate": "streams.d.throughput"},
        comparisons=[{"vary": "streams.d.via"}, {"vary": "params.mode"}],
    )  # fmt: skip
    return make_results(spec, schedule_of().model_copy(update={"trials": trials}), history)
