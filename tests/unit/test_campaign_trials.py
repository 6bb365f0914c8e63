"""From a campaign file to the list of its trials and the order of their repetitions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workflow.campaign.campaign_directory import ScheduledTrial, to_scheduled
from workflow.campaign.file.campaign_spec import RunOrder
from workflow.campaign.file.load_campaign import Campaign, load_campaign
from workflow.campaign.file.trials import make_trials, short_names, trial_text, value_text
from workflow.campaign.planning.planned_trials import make_schedule
from workflow.errors import SpecError

HEAD = "wf: 1\ncampaign: c\npipeline: pipeline.yaml\n"


def campaign_of(tmp_path: Path, text: str) -> Campaign:
    (tmp_path / "campaign.yaml").write_text(HEAD + text)
    return load_campaign(tmp_path / "campaign.yaml")


def points(tmp_path: Path, text: str) -> list[dict[str, object]]:
    return [dict(trial.parameters) for trial in make_trials(campaign_of(tmp_path, text))]


def test_a_matrix_gives_every_combination_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert points(tmp_path, "matrix: {a: [1, 2], b: [x, y]}") == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip


def test_zip_pairs_its_values_and_is_combined_with_the_matrix(tmp_path: Path) -> None:
    assert points(tmp_path, "matrix: {a: [1, 2]}\nzip: {b: [3, 4], c: [5, 6]}") == [
        {"a": 1, "b": 3, "c": 5}, {"a": 1, "b": 4, "c": 6}, {"a": 2, "b": 3, "c": 5}, {"a": 2, "b": 4, "c": 6},
    ]  # fmt: skip


def test_exclude_removes_and_include_adds(tmp_path: Path) -> None:
    text = "matrix: {a: [1, 2], b: [3, 4]}\nexclude: [{a: 1, b: 4}, {a: 2}]\ninclude: [{a: 9}]"
    assert points(tmp_path, text) == [{"a": 1, "b": 3}, {"a": 9}]


def test_values_are_told_apart_by_type(tmp_path: Path) -> None:
    assert points(tmp_path, "matrix: {a: [1, true, 1.0]}\nexclude: [{a: true}]") == [{"a": 1}, {"a": 1.0}]


def test_nothing_varies_in_one_trial(tmp_path: Path) -> None:
    assert points(tmp_path, "repetitions: 3") == [{}]


def test_only_included_trials(tmp_path: Path) -> None:
    assert points(tmp_path, "include: [{a: 1}, {a: 2, b: 3}]") == [{"a": 1}, {"a": 2, "b": 3}]


def test_settings_of_all_trials_come_before_those_that_vary(tmp_path: Path) -> None:
    (trial,) = make_trials(campaign_of(tmp_path, "set: {a: 1, b: 2}\nmatrix: {b: [3]}"))
    assert [(each.key, each.value.value) for each in trial.settings] == [("a", 1), ("b", 2), ("b", 3)]


def test_each_value_has_its_place(tmp_path: Path) -> None:
    trials = make_trials(campaign_of(tmp_path, "matrix:\n  a: [1, 2]\n"))
    assert [(each.settings[0].value.place.line, each.settings[0].value.place.column) for each in trials] == [
        (5, 7),
        (5, 10),
    ]


def test_a_profile_is_no_setting(tmp_path: Path) -> None:
    trials = make_trials(campaign_of(tmp_path, "profiles: [small]\nmatrix: {profile: [null, files]}"))
    assert [trial.profiles for trial in trials] == [("small",), ("small", "files")]
    assert not any(trial.settings for trial in trials)


def test_a_campaign_without_trials_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="removes all 2 trials"):
        points(tmp_path, "matrix: {a: [1, 2]}\nexclude: [{a: 1}, {a: 2}]")


def test_blocks_hold_every_trial_once_and_differ() -> None:
    schedule = make_schedule(list("abcde"), repetitions=3, warmup=1, order=RunOrder())
    blocks = [schedule[start : start + 5] for start in range(0, 20, 5)]
    assert [{(each.number, each.warmup) for each in block} for block in blocks] == [
        {(1, True)}, {(1, False)}, {(2, False)}, {(3, False)},
    ]  # fmt: skip
    assert all(sorted(each.key for each in block) == list("abcde") for block in blocks)
    assert len({tuple(each.key for each in block) for block in blocks}) > 1


def test_the_seed_decides_the_order() -> None:
    same = [make_schedule(list("abcdefgh"), 4, 0, RunOrder(seed=seed)) for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_more_repetitions_do_not_change_the_earlier_ones() -> None:
    assert make_schedule(list("abcdef"), 9, 1, RunOrder())[:30] == make_schedule(list("abcdef"), 4, 1, RunOrder())


def test_the_order_of_the_file_keeps_trials_together() -> None:
    schedule = make_schedule(["a", "b"], repetitions=2, warmup=1, order=RunOrder(by="file"))
    assert [(each.key, each.number, each.warmup) for each in schedule] == [
        ("a", 1, True), ("a", 1, False), ("a", 2, False), ("b", 1, True), ("b", 1, False), ("b", 2, False),
    ]  # fmt: skip


def test_every_trial_is_first_equally_often_over_many_blocks() -> None:
    schedule = make_schedule(list("abcd"), 400, 0, RunOrder())
    first = Counter(schedule[start].key for start in range(0, 1600, 4))
    assert all(70 <= count <= 130 for count in first.values()), first


def test_short_names_are_as_short_as_they_may_be() -> None:
    keys = ["streams.field.via", "stages.a.ranks", "stages.b.ranks", "name"]
    assert list(short_names(keys).values()) == ["via", "a.ranks", "b.ranks", "name"]


def test_numbers_are_shown_as_they_were_written(tmp_path: Path) -> None:
    """Also of a campaign that is read again; they stay numbers."""
    values = {"1.10": 1.1, "007": 7, "1e3": 1000.0, "0x1F": 31, "+5": 5, "2": 2, "0.5": 0.5}
    trials = make_trials(campaign_of(tmp_path, f"matrix: {{params.v: [{', '.join(values)}]}}"))
    ready: list[Any] = [
        SimpleNamespace(key=text, trial=trial, baseline="", is_baseline=True, nodes=1, plan=SimpleNamespace(streams=[]))
        for text, trial in zip(values, trials, strict=True)
    ]
    again = [ScheduledTrial.model_validate_json(to_scheduled(each).model_dump_json()) for each in ready]
    for trial, read, (text, value) in zip(trials, again, values.items(), strict=True):
        for parameters in (trial.parameters, read.parameters):
            assert trial_text(parameters, {"params.v": "v"}) == f"v={text}"
            assert (parameters["params.v"], json.dumps(parameters)) == (value, json.dumps({"params.v": value}))


def test_values_as_text() -> None:
    assert [value_text(value) for value in (True, None, [1, "x"], {"a": False})] == [
        "true",
        "null",
        "[1, x]",
        "{a: false}",
    ]
    assert trial_text({}, {}) == "the only trial"
