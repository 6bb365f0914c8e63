"""The search of a campaign: which trials go on, where it ends, and what it claims."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.measured_campaign import end, spec_of
from workflow.api.campaigns import _refuse_remeasuring
from workflow.campaign.campaign_advice import advise_campaign, budget_problems, data_advice, expected_cost
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.campaign_run import select
from workflow.campaign.campaign_state import _Progress, state_of
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.file.trials import make_trials
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.planning.both_versions import both_versions
from workflow.campaign.planning.campaign_size import PilotSize, PilotsOfCampaign, size_campaign
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_campaign
from workflow.campaign.planning.trial_requests import EstimatedDurations
from workflow.campaign.results.comparisons import NOT_INTERLEAVED, compared_keys, to_measure_again
from workflow.campaign.results.make_results import make_results, make_status
from workflow.campaign.results.results_model import SearchResult
from workflow.campaign.results.results_summary import results_summary
from workflow.campaign.search import Survivors, asked_counts, fewest_repetitions, survivors
from workflow.campaign.show_campaign import size_lines
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.report_figures import Better
from workflow.site.site_model import Site

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
        state = survivors(known, **limits)  # type: ignore[arg-type]
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
    assert survivors(values, **limits) == state  # type: ignore[arg-type]
    part = {key: its[: draw.randint(0, repetitions)] for key, its in values.items()}
    before = survivors(part, **limits)  # type: ignore[arg-type]
    assert set(before.left) >= set(state.left), "who is out stays out"
    assert all(before.repetitions[key] <= state.repetitions[key] for key in values)


@pytest.mark.parametrize("seed", range(50))
def test_the_better_half_goes_on(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(3, 16)
    values = values_of(draw, count, 1)
    order = sorted(values, key=lambda key: values[key][0] or math.inf)
    for better, wanted in (("less", order), ("more", order[::-1])):
        state = survivors(values, better=better, most=99, repetitions=9)  # type: ignore[arg-type]
        assert set(state.left) == set(wanted[: (count + 1) // 2])
        assert {key for key, asked in state.repetitions.items() if asked > 1} == set(state.left)


@pytest.mark.parametrize("count", range(2, 17))
def test_the_fewest_repetitions_are_just_enough(count: int) -> None:
    total, each = fewest_repetitions(count, 1)
    values = values_of(random.Random(count), count, each)
    state, rounds = run_all(values, better="less", most=total, repetitions=each)
    assert sum(state.repetitions.values()) == total and state.repetitions[state.left[0]] == each >= 6
    assert len(state.left) == 2 and rounds == max(2, math.ceil(math.log2(count)))
    less, _ = run_all(values, better="less", most=total - 1, repetitions=each)
    assert less.repetitions[less.left[0]] < each


def test_of_equal_trials_the_first_go_on_and_what_fails_does_not() -> None:
    equal: Measured = {key: [1.0] for key in KEYS[:4]}
    assert survivors(equal, most=99, repetitions=9).left == ("t0", "t1")
    failed: Measured = {**equal, "t0": [None], "t2": [0.5]}
    assert survivors(failed, most=99, repetitions=9).left == ("t2", "t1")
    alone: Measured = {**{key: [None] for key in KEYS[:4]}, "t3": [2.0]}
    assert survivors(alone, most=99, repetitions=9) == (("t3",), dict.fromkeys(KEYS[:4], 1), True, True)
    assert survivors({key: [None] for key in KEYS}, most=99, repetitions=9).left == ()


def test_one_of_the_last_two_that_fails_is_not_left() -> None:
    state = partial(survivors, most=99, repetitions=8)
    assert state({"a": [None], "b": []}) == (("a", "b"), {"a": 1, "b": 1}, False, True)
    assert state({"a": [None], "b": [2.0]}) == (("b",), {"a": 1, "b": 1}, True, True)
    late: Measured = {"a": [1.0, 1.0, 1.0, None, *[1.0] * 4], "b": [2.0] * 8}
    assert state(late) == (("b",), {"a": 8, "b": 8}, True, True)


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


def rounds(spec: CampaignSpec, schedule: Schedule, history: History) -> Iterator[list[Repetition]]:
    """What a search asks for and has not run, again and again, until it asks for nothing more."""
    while True:
        asked = asked_counts(spec, schedule.trials, history)
        todo = [Repetition(key, number) for key, count in asked.items() for number in range(1, count + 1)]
        todo = [each for each in todo if not history.succeeded(each) and each not in history.failures]
        if not todo:
            return
        yield todo


def measure(
    history: History,
    spec: CampaignSpec,
    schedule: Schedule,
    time: dict[str, float],
    noise: float,
    failing: Collection[Repetition] = (),
) -> None:
    """What a search asks for, until it asks for nothing more."""
    draw, at = random.Random(1), 0
    for todo in rounds(spec, schedule, history):
        for each in sorted(todo, key=lambda one: one.number):
            at += 1
            seconds = time.get(each.key, math.nan)
            state = "failed" if math.isnan(seconds) or each in failing else "succeeded"
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
    said = "the better of the last two of 4 trials with ranks=1: via=sst, 0.49 of the run.wall_s of via=shm [0.4"
    assert summary.startswith(said), "the answer comes first"


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


def test_what_is_left_where_not_all_others_failed_is_not_the_best() -> None:
    spec, schedule, history = search_spec(retries=0), search_schedule(ranks=[1]), History()
    measure(history, spec, schedule, TIMES, 0.02, failing=[Repetition("sst1", 4)])
    results = make_results(spec, schedule, history)
    (one,) = results.searches
    assert (one.decision, one.left) == ("undecided", [{"streams.d.via": "shm"}])
    said = "undecided which of 4 trials with ranks=1 is the best: via=shm (the others failed, or dropped out before)"
    assert results_summary(results).startswith(said)


def test_a_verdict_counts_the_searches_that_are_not_finished() -> None:
    """One that was given could not be kept when these have theirs."""
    found = {}
    for ranks in ([1], [1, 2]):
        spec, schedule, history = search_spec(repetitions=6), search_schedule(ranks), History()
        measure(history, spec, search_schedule(ranks=[1]), TIMES, 0.02)
        found[len(ranks)] = [each.decision for each in make_results(spec, schedule, history).searches]
    assert found == {1: ["found"], 2: ["undecided", "unfinished"]}


def test_a_campaign_that_has_run_more_than_its_search_asks_for_is_complete() -> None:
    spec, schedule, history = search_spec(), search_schedule(ranks=[1]), History()
    for trial in schedule.trials:
        for number in range(1, 9):
            history.end(Repetition(trial.key, number), replace(end(TIMES[trial.key]), started=float(number)))
    status, results = make_status(spec, schedule, history), make_results(spec, schedule, history)
    assert status.complete and state_of(status) == "complete"
    assert "18 of 18 repetitions succeeded" in results_summary(results)
    history.ended.pop(Repetition("sst1", 8))
    missing = make_results(spec, schedule, history)
    assert any(note.startswith("still to run: 1 of 18") for note in missing.notes)
    progress = _Progress(spec, schedule.trials)
    shown = [progress.take(each, attempt, history) for each, attempt in list(history.ended.items())]
    assert shown[-1][0] == 17 and progress.total == 18


def test_the_last_two_are_measured_again_where_one_is_new() -> None:
    spec, old, schedule, history = search_spec(), search_schedule(ranks=[1]), search_schedule(ranks=[1]), History()
    old.trials.pop(1)
    measure(history, spec, old, TIMES, 0.02)
    later = History()
    measure(later, spec, schedule, TIMES, 0.02)
    for each, attempt in later.ended.items():
        if each not in history.ended:
            history.end(each, replace(attempt, started=attempt.started + 1000))
    results = make_results(spec, schedule, history)
    assert (results.searches[0].decision, results.searches[0].reason) == ("undecided", NOT_INTERLEAVED)
    assert any("--remeasure-reference` measures both side by side" in note for note in results.notes)
    (pair,) = compared_keys(spec, schedule.trials, history)
    assert set(pair) == {"sst1", "shm1"}
    again = to_measure_again(spec, [pair], {}, history)
    assert {each.key for each in again} == {"sst1", "shm1"} and len(again) == 16


def test_of_what_is_not_known_the_largest_trials_go_on() -> None:
    spec, schedule = search_spec(), search_schedule(ranks=[1])
    schedule.trials[2:] = [each.model_copy(update={"nodes": 8}) for each in schedule.trials[2:]]
    asked = asked_counts(spec, schedule.trials, History(), to_the_end=True)
    assert asked == {"sst1": 1, "shm1": 1, "bp51": 8, "dataman1": 8}
    history = History()
    history.end(Repetition("bp51", 1), end(9.0))
    assert asked_counts(spec, schedule.trials, history, to_the_end=True) == asked, "it may still be the best"


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
        for todo in rounds(spec, schedule, history):
            for each in todo:
                history.end(each, replace(end(draw.lognormvariate(0, 0.1)), started=float(each.number)))
        claimed += make_results(spec, schedule, history).searches[0].decision == "found"
    assert claimed <= 20, "of 200 searches; 10 are to be expected of a test at 5 %"


def test_the_progress_of_a_search_counts_what_it_will_have_run() -> None:
    spec, schedule, history = search_spec(), search_schedule(), History()
    progress, counted = _Progress(spec, schedule.trials), []
    for todo in rounds(spec, schedule, history):
        for each in todo:
            ended = end(TIMES[each.key])
            history.end(each, ended)
            counted.append((*progress.take(each, ended, history), progress.total))
    assert [done for done, _, _ in counted] == list(range(1, 37)) and {total for *_, total in counted} == {36}
    assert counted[-1][1] == 0


PIPELINE = """
wf: 1
name: p
stages:
  a: {component: gray_scott, ranks: 6, with: {size: [8], steps: 20, write_every: 10}}
  b: {component: "null"}
streams:
  d: {from: a, to: b, via: bp5, step_size: 1 MB}
"""
CAMPAIGN = """
wf: 1
campaign: c
pipeline: pipeline.yaml
matrix: {stages.a.place.nodes: [1, 2, 3, 6]}
repetitions: 6
warmup: 0
expected: 1 h
search: {over: [stages.a.place.nodes], best: stages.a.wall_s, trials: 20}
"""


def planned_search(folder: Path, text: str = CAMPAIGN) -> PlannedCampaign:
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "campaign.yaml").write_text(text)
    site = Site(site="t", summary="", nodes=8, cores_per_node=8, memory_per_node=2**33, launcher="srun")
    return plan_campaign(
        load_campaign(folder / "campaign.yaml"),
        lambda loaded, _: make_plan(loaded, site, python="python", wf_version="0"),
    )


def test_the_cost_of_a_search_is_that_of_its_largest_trials(tmp_path: Path) -> None:
    planned = planned_search(tmp_path)
    assert [each.nodes for each in planned.ready] == [1, 2, 3, 6]
    cost = expected_cost(planned)
    assert (cost.repetitions, cost.node_hours) == (14, 1 + 2 + 6 * 3 + 6 * 6)
    (found,) = budget_problems(planned_search(tmp_path, f"{CAMPAIGN}budget: {{node_hours: 20}}\n"))
    assert found.level == "warning" and "all repetitions take at most" in found.message
    size = size_campaign(planned, EstimatedDurations(3600.0, 600.0), PilotsOfCampaign(PilotSize(8, (0,))))
    (line,) = (line for line in size_lines(replace(size, at_once=1), planned.spec) if "cost" in line)
    assert line.startswith("time: at most ") and "cost: at most " in line


def test_the_data_of_a_search_are_those_that_it_asks_for(tmp_path: Path) -> None:
    planned = planned_search(tmp_path)
    assert planned.ready[0].plan.stage("a").end("d", "write").steps == 3
    (found,) = data_advice(planned, History(), tmp_path / "c", 14 * 3_000_000)
    assert (found.level, found.message.rpartition(": ")[2]) == ("note", "at least 42.0 MB")


def test_a_search_can_be_measured_again(tmp_path: Path) -> None:
    planned, history = planned_search(tmp_path), History()
    for index, trial in enumerate(planned.ready):
        for number in range(1, 7):
            attempt = Attempt(
                "succeeded", 1, "r", 1000.0 * index + number, 1.0, figures={"stages.a.wall_s": 1.0 + index}
            )
            history.end(Repetition(trial.key, number), attempt)
    _refuse_remeasuring(planned)
    again = select(planned, history, only_failed=False, remeasure=True).again
    assert {each.key for each in again} == {each.key for each in planned.ready[:2]} and len(again) == 12


def test_the_runs_of_a_search_are_those_that_it_may_take(tmp_path: Path) -> None:
    more = CAMPAIGN.replace("repetitions: 6", "repetitions: 10000").replace("[1, 2, 3, 6]", str([*range(1, 102)]))
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(more)
    assert len(make_trials(load_campaign(tmp_path / "campaign.yaml"))) == 101
    (tmp_path / "campaign.yaml").write_text(more.replace("trials: 20", "trials: 2000000"))
    with pytest.raises(SpecError, match="1010000 runs of 101 trials: a campaign has at most 1000000"):
        make_trials(load_campaign(tmp_path / "campaign.yaml"))


def test_the_metrics_of_a_file_without_any_stay(tmp_path: Path) -> None:
    def metrics(text: str) -> dict[str, str]:
        return {name: each.of for name, each in planned_search(tmp_path, text).spec.metrics.items()}

    assert metrics(CAMPAIGN) == {"time": "run.wall_s", "best": "stages.a.wall_s"}
    assert metrics(CAMPAIGN.replace("stages.a.wall_s", "run.wall_s")) == {"time": "run.wall_s"}
    more = f"{CAMPAIGN}metrics: {{it: stages.b.wall_s}}\n"
    assert metrics(more) == {"it": "stages.b.wall_s", "best": "stages.a.wall_s"}


def test_that_a_gate_does_not_search_is_said(tmp_path: Path) -> None:
    planned = planned_search(tmp_path)
    of_gate = both_versions(planned, planned)
    text = "`search` has no effect: a gate runs all trials of both versions"
    assert [each.message for each in advise_campaign(of_gate) if "search" in each.message] == [text]
    assert not any("search" in each.message for each in advise_campaign(planned))
