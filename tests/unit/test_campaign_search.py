"""The search of a campaign: which trials go on, where it ends, and what it claims."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.measured_campaign import end, spec_of
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.campaign_state import _Progress
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import History, Repetition
from workflow.campaign.results.make_results import make_results, make_status
from workflow.campaign.results.results_model import SearchResult
from workflow.campaign.results.results_summary import results_summary
from workflow.campaign.search import Survivors, asked_counts, fewest_repetitions, survivors
from workflow.report_figures import Better

KEYS = [f"t{number}" for number in range(16)]
Measured = dict[str, list[float | None]]


def values_of(draw: random.Random, count: int, repetitions: int, failing: float = 0.0) -> Measured:
    """What trials would measure, of which the first is the best; a repetition fails as often as `failing` says."""
    return {
        key: [
            None if draw.random() < failing else (1 + 0.2 * index) * draw.lognormvariate(0, 0.05)
            for _ in range(repetitions)
        ]
        for index, key in enumerate(KEYS[:count])
    }


def run_all(values: Measured, **limits: object) -> tuple[Survivors, int]:
    """A search to its end, which runs what it asks for; how many rounds it took."""
    known: Measured = {key: [] for key in values}
    for rounds in range(100):
        state = survivors(list(values), known, **limits)  # type: ignore[arg-type]
        if state.finished:
            return state, rounds
        assert any(len(known[key]) < count for key, count in state.repetitions.items()), "it asks for nothing"
        known = {key: its[: state.repetitions[key]] for key, its in values.items()}
    raise AssertionError("it does not end")


@pytest.mark.parametrize("seed", range(200))
def test_a_search_ends_within_its_limits_and_goes_on_where_it_was(seed: int) -> None:
    draw = random.Random(seed)
    count, repetitions = draw.randint(1, 16), draw.randint(1, 12)
    most, failing = draw.randint(count, 80), draw.choice([0.0, 0.0, 0.1, 0.5])
    better: Better = draw.choice(["less", "more"])
    values = values_of(draw, count, repetitions, failing)
    limits = {"better": better, "most": most, "repetitions": repetitions}
    state, _ = run_all(values, **limits)
    asked = list(state.repetitions.values())
    assert set(state.left) <= set(values) and len(set(state.left)) == len(state.left)
    assert all(1 <= each <= repetitions for each in asked) and sum(asked) <= most
    assert all(state.repetitions[key] == max(asked) for key in state.left), "the others have run less"
    # More than it has asked for, measured in another order or before a stop, changes nothing.
    assert survivors(list(values), values, **limits) == state  # type: ignore[arg-type]
    part = {key: its[: draw.randint(0, repetitions)] for key, its in values.items()}
    before = survivors(list(values), part, **limits)  # type: ignore[arg-type]
    assert set(before.left) >= set(state.left), "who is out stays out"
    assert all(before.repetitions[key] <= state.repetitions[key] for key in values)


@pytest.mark.parametrize("seed", range(50))
def test_the_better_half_goes_on(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(3, 16)
    values = values_of(draw, count, 1)
    order = sorted(values, key=lambda key: values[key][0] or math.inf)
    for better, wanted in (("less", order), ("more", order[::-1])):
        state = survivors(list(values), values, better=better, most=99, repetitions=9)  # type: ignore[arg-type]
        assert set(state.left) == set(wanted[: (count + 1) // 2])
        assert {key for key, asked in state.repetitions.items() if asked > 1} == set(state.left)


@pytest.mark.parametrize("count", range(2, 17))
def test_the_fewest_repetitions_are_just_enough(count: int) -> None:
    total, each = fewest_repetitions(count, 1)
    values = values_of(random.Random(count), count, each)
    state, rounds = run_all(values, better="less", most=total, repetitions=each)
    assert sum(state.repetitions.values()) == total and state.repetitions[state.left[0]] == each >= 6
    assert len(state.left) == 2 and rounds == max(1, math.ceil(math.log2(count)))
    less, _ = run_all(values, better="less", most=total - 1, repetitions=each)
    assert less.repetitions[less.left[0]] < each


def test_of_equal_trials_the_first_go_on_and_what_fails_does_not() -> None:
    equal: Measured = {key: [1.0] for key in KEYS[:4]}
    assert survivors(KEYS[:4], equal, most=99, repetitions=9).left == ("t0", "t1")
    failed: Measured = {**equal, "t0": [None], "t2": [0.5]}
    assert survivors(KEYS[:4], failed, most=99, repetitions=9).left == ("t2", "t1")
    alone: Measured = {**{key: [None] for key in KEYS[:4]}, "t3": [2.0]}
    assert survivors(KEYS[:4], alone, most=99, repetitions=9) == (("t3",), dict.fromkeys(KEYS[:4], 1), True)
    assert survivors(KEYS[:4], {key: [None] for key in KEYS}, most=99, repetitions=9).left == ()


VIAS = ["sst", "shm", "bp5", "dataman"]
SEARCH = {"over": ["streams.d.via"], "best": "run.wall_s", "trials": 60}


def search_spec(**changed: object) -> CampaignSpec:
    matrix = {"streams.d.via": VIAS, "stages.s.ranks": [1, 2]}
    return spec_of(comparisons=[], search=SEARCH, matrix=matrix, warmup=0, **changed)


def search_schedule(ranks: Sequence[int] = (1, 2)) -> Schedule:
    trials = [
        ScheduledTrial(key=f"{via}{number}", parameters={"streams.d.via": via, "stages.s.ranks": number})
        for via in VIAS
        for number in ranks
    ]
    return Schedule(wf_version="1", site="local", host="h", versions={}, trials=trials)


def measure(history: History, spec: CampaignSpec, schedule: Schedule, time: dict[str, float], noise: float) -> None:
    """What a search asks for, until it asks for nothing more."""
    draw, at = random.Random(1), 0
    while True:
        asked = asked_counts(spec, schedule.trials, history)
        todo = [Repetition(key, number) for key, count in asked.items() for number in range(1, count + 1)]
        todo = [each for each in todo if not history.succeeded(each) and each not in history.failures]
        if not todo:
            return
        for each in sorted(todo, key=lambda one: one.number):
            at += 1
            seconds = time.get(each.key, math.nan)
            state = "failed" if math.isnan(seconds) else "succeeded"
            ended = replace(end(seconds * draw.lognormvariate(0, noise), state), started=float(at))
            history.end(each, ended)


def search_among(time: dict[str, float], noise: float = 0.02, **changed: object) -> tuple[list[SearchResult], str]:
    spec, schedule, history = search_spec(retries=0, **changed), search_schedule(), History()
    assert {each.decision for each in make_results(spec, schedule, history).searches} == {"unfinished"}
    measure(history, spec, schedule, time, noise)
    results = make_results(spec, schedule, history)
    return results.searches, results_summary(results)


TIMES = {f"{via}{ranks}": float((1 + index) * ranks) for index, via in enumerate(VIAS) for ranks in (1, 2)}


def test_each_combination_of_the_other_keys_has_a_search_of_its_own() -> None:
    (one, two), summary = search_among({**TIMES, "bp52": 0.7})
    assert (one.at, one.decision, one.left) == (
        {"stages.s.ranks": 1}, "found", [{"streams.d.via": "sst"}, {"streams.d.via": "shm"}],
    )  # fmt: skip
    assert two.decision == "found" and two.left[0] == {"streams.d.via": "bp5"}
    assert one.ratio == pytest.approx(0.5, rel=0.1) and one.low is not None and one.low < 0.5 < (one.high or 0)
    assert one.repetitions == 4 - 2 + 2 * 8, "each of the last two as often as the campaign says"
    assert "the best of 4 trials with ranks=1: via=sst, 0.49 of the run.wall_s of via=shm [0.4" in summary


def test_what_cannot_be_told_apart_is_undecided_and_named() -> None:
    (one, two), summary = search_among({**TIMES, "shm1": 1.0}, noise=0.001)
    assert (one.decision, one.reason, two.decision) == ("undecided", "same", "found")
    assert {its["streams.d.via"] for its in one.left} == {"sst", "shm"}
    assert "undecided which of 4 trials with ranks=1 is the best: via=s" in summary
    assert "the same within 5 %" in summary


def test_where_all_others_fail_the_last_one_is_the_best_without_a_comparison() -> None:
    (one, two), summary = search_among({"bp51": 1.0})
    assert (one.decision, one.left, one.ratio) == ("found", [{"streams.d.via": "bp5"}], None)
    assert (two.decision, two.left) == ("none", [])
    assert "via=bp5, all others failed" in summary and "none of 4 trials with ranks=2 has a result" in summary


def test_the_status_counts_what_the_search_asks_for() -> None:
    spec, schedule, history = search_spec(), search_schedule(), History()
    assert [each.wanted for each in make_status(spec, schedule, history).trials] == [1] * 8
    measure(history, spec, schedule, TIMES, 0.02)
    status = make_status(spec, schedule, history)
    assert status.complete and sorted(each.wanted for each in status.trials) == [1, 1, 1, 1, 8, 8, 8, 8]
    to_the_end = asked_counts(spec, schedule.trials, History(), to_the_end=True)
    assert sorted(to_the_end.values()) == sorted(each.wanted for each in status.trials)


def test_of_equal_trials_a_winner_is_seldom_claimed() -> None:
    claimed = 0
    for seed in range(200):
        draw = random.Random(seed)
        schedule, history = search_schedule(ranks=[1]), History()
        spec = search_spec(threshold=0.001)
        while True:
            asked = asked_counts(spec, schedule.trials, history)
            todo = [Repetition(key, number) for key, count in asked.items() for number in range(1, count + 1)]
            todo = [each for each in todo if not history.succeeded(each)]
            if not todo:
                break
            for each in todo:
                history.end(each, replace(end(draw.lognormvariate(0, 0.1)), started=float(each.number)))
        claimed += make_results(spec, schedule, history).searches[0].decision == "found"
    assert claimed <= 20, "of 200 searches; 10 are to be expected of a test at 5 %"


def test_the_progress_of_a_search_counts_what_it_will_have_run() -> None:
    spec, schedule, history = search_spec(), search_schedule(), History()
    progress, counted = _Progress(spec, schedule.trials), []
    while True:
        asked = asked_counts(spec, schedule.trials, history)
        todo = [Repetition(key, number) for key, count in asked.items() for number in range(1, count + 1)]
        todo = [each for each in todo if not history.succeeded(each)]
        if not todo:
            break
        for each in todo:
            ended = end(TIMES[each.key])
            history.end(each, ended)
            counted.append((*progress.take(each, ended, history), progress.total))
    assert [done for done, _, _ in counted] == list(range(1, 37)) and {total for *_, total in counted} == {36}
    assert counted[-1][1] == 0
