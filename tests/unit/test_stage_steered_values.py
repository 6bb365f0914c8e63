"""`stage.steered`: which values hold at which step. Without a run, but in its folders."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workflow import stage
from workflow.formats.stage_file import StageSettings, StreamEnd
from workflow.formats.steering_files import (
    ASKED_FILE,
    TAKEN_FILE,
    ValueChange,
    append_change,
    known_changes,
    read_changes,
    shifted,
)
from workflow.stage import settings, telemetry
from workflow.stage.api import steered_values
from workflow.stage.stage_errors import StageError


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StageSettings]:
    """An attempt of stage `sim`, which writes `field` from step 0 on."""
    monkeypatch.setattr(steered_values, "LOOK_S", 0.0)
    monkeypatch.setattr(steered_values, "_steering", None)
    monkeypatch.setattr(telemetry, "_metrics", None)
    folder(tmp_path).mkdir(parents=True)
    ends = (StreamEnd("field", "field", "write", "BP5", str(tmp_path / "field.bp")),)
    made = StageSettings(
        "sim",
        1,
        run_dir=str(tmp_path),
        ends=ends,
        steer={"feed": 0.03},
        metrics=str(folder(tmp_path) / "metrics.jsonl"),
    )
    monkeypatch.setattr(settings, "_current", made)
    yield made


def folder(run_dir: Path) -> Path:
    return run_dir / "stages/sim"


def begin(made: StageSettings, first: int = 0) -> None:
    """From now on it is another attempt, whose readers have the steps before `first`."""
    settings.use(replace(made, ends=tuple(replace(end, first_step=first) for end in made.ends)))


def ask(run_dir: Path, name: str, feed: float, step: int | None = None) -> None:
    append_change(folder(run_dir) / ASKED_FILE, ValueChange(name, {"feed": feed}, step, "ada@n1"))


def feeds(first: int, last: int) -> list[object]:
    """The values of these steps."""
    return [stage.steered(step, feed=0.0, kill=7)["feed"] for step in range(first, last)]


def answers(run_dir: Path) -> list[tuple[str, int | None, bool]]:
    return [(each.id, each.step, bool(each.refused)) for each in read_changes(folder(run_dir) / TAKEN_FILE)]


def metrics(run_dir: Path, kind: str) -> list[dict[str, object]]:
    lines = (folder(run_dir) / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


@pytest.mark.usefixtures("attempt")
def test_a_change_holds_from_its_step_on(tmp_path: Path) -> None:
    assert feeds(0, 2) == [0.03, 0.03], "what the pipeline declares, not what the program gives"
    ask(tmp_path, "later", 0.05, 4)
    ask(tmp_path, "now", 0.04)
    assert feeds(2, 6) == [0.04, 0.04, 0.05, 0.05]
    assert answers(tmp_path) == [("now", 2, False), ("later", 4, False)]
    first, second = metrics(tmp_path, "steered")
    assert (first["step"], first["old"], first["new"], first["by"]) == (2, {"feed": 0.03}, {"feed": 0.04}, "ada@n1")
    assert second["old"] == {"feed": 0.04}


@pytest.mark.usefixtures("attempt")
def test_a_step_that_is_over_is_refused(tmp_path: Path) -> None:
    feeds(0, 5)
    ask(tmp_path, "late", 0.05, 4)
    assert feeds(5, 7) == [0.03, 0.03]
    assert answers(tmp_path) == [("late", 4, True)]
    assert metrics(tmp_path, "refused")[0]["reason"] == "step 4 has passed: sim is at step 5"


@pytest.mark.usefixtures("attempt")
def test_one_between_two_steps_begins_at_the_next(tmp_path: Path) -> None:
    feeds(0, 1)
    ask(tmp_path, "between", 0.05, 15)
    assert [stage.steered(step, feed=0)["feed"] for step in (10, 20)] == [0.03, 0.05]
    assert answers(tmp_path) == [("between", 20, False)]


def test_the_next_attempt_takes_the_same_at_the_same_steps(attempt: StageSettings, tmp_path: Path) -> None:
    feeds(0, 2)
    ask(tmp_path, "a", 0.04, 3)
    ask(tmp_path, "b", 0.05, 8)
    assert feeds(2, 5) == [0.03, 0.04, 0.04]
    ask(tmp_path, "late", 0.06, 1)
    feeds(5, 6)
    begin(attempt, 5)
    ask(tmp_path, "now", 0.07)
    ask(tmp_path, "past", 0.08, 4)
    assert feeds(2, 10) == [0.03, 0.04, 0.04, 0.07, 0.07, 0.07, 0.05, 0.05], "what readers have does not change"
    assert answers(tmp_path)[1:] == [("late", 1, True), ("past", 4, True), ("now", 5, False), ("b", 8, False)]
    begin(attempt, 9)
    assert feeds(9, 10) == [0.05], "also for one that begins later"
    assert [each.step for each in known_changes(folder(tmp_path))] == [3, 5, 8]


def test_what_the_plan_knows_comes_without_a_request(attempt: StageSettings, tmp_path: Path) -> None:
    known = [ValueChange("at", {"feed": 0.5}, 2, "the pipeline file"), ValueChange("x", {"feed": 0.6}, 4, "ada@n1")]
    settings.use(replace(attempt, changes=[vars(each) for each in known]))
    ask(tmp_path, "x", 9.0)  # answered in an earlier part
    ask(tmp_path, "now", 0.04)
    assert feeds(1, 6) == [0.04, 0.5, 0.5, 0.6, 0.6]
    assert answers(tmp_path) == [("now", 1, False)]
    assert [each.step for each in shifted(known, 3)] == [0, 1]
    assert not {each.id for each in shifted(known, 3)} & {each.id for each in known}, "what is asked there is new"


@pytest.mark.usefixtures("attempt")
def test_what_cannot_be_recorded_is_not_taken(tmp_path: Path) -> None:
    (folder(tmp_path) / TAKEN_FILE).mkdir()
    ask(tmp_path, "a", 0.04)
    assert feeds(0, 2) == [0.03, 0.03]
    assert str(metrics(tmp_path, "refused")[0]["reason"]).startswith("it cannot be recorded: ")


@pytest.mark.usefixtures("attempt")
def test_what_the_disk_does_not_take_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with (folder(tmp_path) / ASKED_FILE).open("w") as file:
        file.write('{"id": "a", "values": {"feed": 0.04}, "step": null, "by": ""}\n')
    assert feeds(0, 2) == [0.03, 0.03]
    assert answers(tmp_path) == [], "no later attempt takes it"
    assert metrics(tmp_path, "refused")[0]["reason"] == "it cannot be recorded: Input/output error"


@pytest.mark.usefixtures("attempt")
def test_damaged_requests_are_left_out(tmp_path: Path) -> None:
    with (folder(tmp_path) / ASKED_FILE).open("w") as file:
        file.write('[]\n{"id": 1}\n{"id": "a", "values": {"feed": [1]}, "step": 1, "by": ""}\nx\n')
    ask(tmp_path, "b", 0.04)
    assert feeds(0, 1) == [0.04]


@pytest.mark.usefixtures("attempt")
def test_mistakes_of_the_program() -> None:
    with pytest.raises(StageError, match="declares 'feed' in `steer:`, and the program can be steered in kill, speed"):
        stage.steered(0, kill=1, speed=2)
    feeds(0, 3)
    with pytest.raises(StageError, match="called for step 1 after step 2: steps go forward"):
        stage.steered(1, feed=0)
    with pytest.raises(ValueError, match="feed: expected a finite number, got nan"):
        stage.steer("sim", feed=np.float64("nan"))
    with pytest.raises(TypeError, match="feed: expected a number, a text, True or False, got list"):
        stage.steer("sim", feed=[1])  # type: ignore[arg-type]


@pytest.mark.usefixtures("attempt")
def test_asking_is_one_record(tmp_path: Path) -> None:
    stage.steer("other", at_step=4, feed=np.float32(0.5), on=True)
    (record,) = metrics(tmp_path, "steer")
    assert (record["stage"], record["values"], record["step"]) == ("other", {"feed": 0.5, "on": True}, 4)


class Counted:
    """A reader or a writer of which so many steps are begun."""

    def __init__(self, steps: int) -> None:
        self.steps_begun = steps


def test_a_request_that_is_made_again_has_its_id_again(
    attempt: StageSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is started again at step 2 comes to the places at which it has asked."""
    ends = (StreamEnd("field", "field", "read", "SST", "f"), StreamEnd("out", "out", "write", "SST", "o"))
    opened: dict[object, Counted] = {}
    monkeypatch.setattr("workflow.stage.api.opened_ends.opened_ends", opened)
    places = {}
    for number, first in ((1, 0), (2, 2)):
        settings.use(replace(attempt, ends=tuple(replace(end, first_step=first) for end in ends)))
        opened.clear()
        stage.steer("other", feed=0.1)  # before its first step
        for step in range(first, 4):
            opened |= {("field", "read"): Counted(step + 1), ("out", "write"): Counted(step)}
            stage.steer("other", feed=0.1)
            stage.steer("other", feed=0.2)
        places[number] = [record["id"] for record in metrics(tmp_path, "steer")]
    before, again = places[1], places[2][len(places[1]) :]
    assert len(set(before)) == len(before) == 9
    assert again == [before[0], *before[5:]]


@pytest.mark.usefixtures("attempt")
def test_what_is_asked_for_again_is_not_taken_again(tmp_path: Path) -> None:
    ask(tmp_path, "look-5-0", 0.04)
    assert feeds(0, 2) == [0.04, 0.04]
    ask(tmp_path, "user", 0.05)
    ask(tmp_path, "look-5-0", 0.04)
    ask(tmp_path, "user", 0.09, 3)
    assert feeds(2, 5) == [0.05, 0.05, 0.05]


def test_without_a_run_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_current", StageSettings())
    monkeypatch.setattr(telemetry, "_metrics", None)
    stage.steer("sim", feed=1.0)
    assert stage.steered(3, feed=0.03, on=True) == {"feed": 0.03, "on": True}
