"""`stage.State`: what is saved, which state is taken again, and what is refused. Without a run, but in its folders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workflow import stage
from workflow.formats.kept_state import KeptState, is_whole, read_states, remove_state, write_record
from workflow.formats.stage_file import StageSettings, StreamEnd
from workflow.stage import settings
from workflow.stage.api import opened_ends, stopping
from workflow.stage.api.window import Windows


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StageSettings]:
    """An attempt of stage `sum`, which reads `field` from step 0 on."""
    monkeypatch.setattr(opened_ends, "opened_ends", {})
    monkeypatch.setattr(stopping, "_unsaved", False)
    (tmp_path / "stages/sum").mkdir(parents=True)
    ends = (StreamEnd("field", "field", "read", "BP5", str(tmp_path / "field.bp")),)
    made = StageSettings("sum", 1, run_dir=str(tmp_path), ends=ends, restarts=True, save_every_s=0.0)
    monkeypatch.setattr(settings, "_current", made)
    yield made


def begin(made: StageSettings, step: int) -> None:
    """From now on it is an attempt that begins at this step."""
    settings.use(replace(made, ends=tuple(replace(end, first_step=step) for end in made.ends)))


def folder(made: StageSettings) -> Path:
    return Path(made.run_dir) / "stages/sum/state"


def test_all_values_come_back_as_they_were(attempt: StageSettings) -> None:
    given = {
        "grid": np.arange(6.0).reshape(2, 3), "half": np.float32(0.5), "none": None, "flag": True, "count": 2**70,
        "tiny": 5e-324, "nan": math.nan, "text": "Å", "list": [1, [2.5, "x"]], "map": {"a": 1}, "z": np.array([1j]),
    }  # fmt: skip
    stage.State(**given).save()
    begin(attempt, 0)
    found = stage.State(**dict.fromkeys(given))
    assert found.keys() == given.keys()
    np.testing.assert_equal(dict(found), given)
    assert found["grid"].dtype == np.float64
    assert found["half"].dtype == np.float32
    found["grid"][0] = 7.0


def test_the_state_of_the_step_is_taken_and_those_after_it_go(attempt: StageSettings) -> None:
    state = stage.State(n=0)
    for step in range(4):
        begin(attempt, step)  # as if that many steps were read
        state["n"] = 10 * step
        state.save()
    begin(attempt, 2)
    assert stage.State(n=0)["n"] == 20
    assert [each.steps["field"] for each in read_states(folder(attempt))] == [2, 1, 0]


def test_a_state_that_is_not_there_is_refused(attempt: StageSettings) -> None:
    stage.State(n=0).save()
    begin(attempt, 3)
    with pytest.raises(stage.StageError, match="the state of the step at which this attempt begins is not there"):
        stage.State(n=0)


def test_where_nothing_was_saved_it_has_its_initial_values(attempt: StageSettings) -> None:
    """What may fail goes on in the next part with the steps that come."""
    begin(attempt, 3)
    assert stage.State(n=5)["n"] == 5


def test_without_one_it_begins_with_the_initial_values_and_says_so(
    attempt: StageSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage.State(n=5)["n"] == 5
    assert capsys.readouterr().err == ""
    with pytest.raises(stage.StageError, match="this program has a State already; put all values into one"):
        stage.State(n=5)
    begin(attempt, 0)
    assert stage.State(n=5)["n"] == 5
    assert "it begins at the first step" in capsys.readouterr().err


def test_other_names_are_refused(attempt: StageSettings) -> None:
    stage.State(n=0).save()
    begin(attempt, 0)
    with pytest.raises(stage.StageError, match="the saved state has n, but the program has m: it has changed since"):
        stage.State(m=0)


@pytest.mark.parametrize("value", [np.array([object()]), object(), {1j}])
def test_what_cannot_be_saved_is_refused(attempt: StageSettings, value: object) -> None:
    with pytest.raises(TypeError):
        stage.State(n=value).save()
    assert read_states(folder(attempt)) == []


def test_nothing_is_saved_by_hand(attempt: StageSettings) -> None:
    settings.use(StageSettings())
    stage.State(n=1).save()
    assert not folder(attempt).exists()


def test_where_no_state_is_asked_for_the_folder_says_that_there_would_be_one(attempt: StageSettings) -> None:
    settings.use(replace(attempt, save_every_s=None))
    state = stage.State(n=1)
    assert not state.is_due()
    state.save()
    assert list(folder(attempt).iterdir()) == []


def test_states_are_saved_at_most_so_often(attempt: StageSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    settings.use(replace(attempt, save_every_s=60.0))
    state = stage.State(n=0)
    saved = []
    for second in range(0, 200, 10):
        now[0] = 100.0 + second
        begin(replace(attempt, save_every_s=60.0), second)
        state.save(n=second)
        saved.append(state["n"])
    assert sorted({*saved}) == [0, 60, 120, 180]
    assert [each.steps["field"] for each in read_states(folder(attempt))] == [180, 120]


def saving(made: StageSettings) -> Callable[[range], list[int]]:
    """Saves a state at each of these steps, and returns the steps of all that are kept, the oldest first."""
    settings.use(made)
    state = stage.State(n=0)

    def save(steps: range) -> list[int]:
        for step in steps:
            begin(made, step)
            state.save()
        return [each.steps["field"] for each in reversed(read_states(folder(made)))]

    return save


def test_states_that_those_of_a_reader_need_are_kept(attempt: StageSettings) -> None:
    """A simulation saves at each step; its reader has saved at steps 3 and 9, and could begin only there."""
    writes = StreamEnd("field", "field", "write", "SST", "field", parameters={"QueueLimit": "2"})
    made = replace(attempt, ends=(writes,), readers={"field": ["xrd", "plain"]})
    theirs = Path(made.run_dir) / "stages/xrd/state"
    theirs.mkdir(parents=True)
    save = saving(made)

    assert save(range(0, 14, 2)) == [6, 8, 10, 12], "as far as a reader of a live stream may be behind"
    write_record(theirs, KeptState(1, {"field": 7, "pattern": 7}, ()))
    assert save(range(14, 40, 2)) == [6, 32, 34, 36, 38]
    write_record(theirs, KeptState(2, {"field": 33, "pattern": 33}, ()))
    assert save(range(40, 60, 2)) == [6, 32, 52, 54, 56, 58]
    remove_state(theirs, KeptState(1, {}, ()))
    assert save(range(60, 62, 2)) == [32, 54, 56, 58, 60]


def test_states_that_a_stage_behind_one_without_a_state_needs_are_kept(attempt: StageSettings) -> None:
    """field → relay, which has no state → pattern → sink, which has saved at step 7: the relay begins there, too."""
    writes = StreamEnd("field", "field", "write", "SST", "field", parameters={"QueueLimit": "2"})
    readers = {"field": ["relay"], "pattern": ["sink"]}
    made = replace(attempt, ends=(writes,), readers=readers, written={"relay": ["pattern"]})
    stages = Path(made.run_dir) / "stages"
    (stages / "sink/state").mkdir(parents=True)
    write_record(stages / "sink/state", KeptState(1, {"pattern": 7}, ()))
    save = saving(made)

    assert save(range(0, 40, 2)) == [6, 32, 34, 36, 38]
    # With a state of its own it begins only there, and keeps those that the sink needs.
    (stages / "relay/state").mkdir(parents=True)
    write_record(stages / "relay/state", KeptState(1, {"field": 33, "pattern": 5}, ()))
    assert save(range(40, 60, 2)) == [32, 52, 54, 56, 58]


def test_streams_that_go_round_in_a_circle_are_looked_at_once(attempt: StageSettings) -> None:
    """field → there → forces → back → moved → there: neither of the two programs behind this one has a state."""
    writes = StreamEnd("field", "field", "write", "SST", "field", parameters={"QueueLimit": "2"})
    made = replace(
        attempt,
        ends=(writes,),
        readers={"field": ["there"], "forces": ["back"], "moved": ["there"]},
        written={"there": ["forces"], "back": ["moved"]},
    )
    settings.use(made)
    state = stage.State(n=0)
    for step in range(0, 40, 2):
        begin(made, step)
        state.save()
    assert [each.steps["field"] for each in read_states(folder(made))] == [38, 36, 34, 32]


def test_a_state_is_saved_when_the_run_is_to_be_stopped(
    attempt: StageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.use(replace(attempt, save_every_s=3600.0))
    state = stage.State(n=0)
    assert not state.is_due()
    monkeypatch.setattr("workflow.stage.api.state.state_is_due", lambda: True)
    assert state.is_due()
    state.save()
    assert len(read_states(folder(attempt))) == 1


@pytest.mark.parametrize("how", ["short", "changed", "gone", "record", "version"])
def test_a_damaged_state_is_none(attempt: StageSettings, how: str) -> None:
    state = stage.State(n=np.zeros(100))
    state.save()
    (kept,) = read_states(folder(attempt))
    assert is_whole(folder(attempt), kept)
    data, record = folder(attempt) / kept.files[0].name, folder(attempt) / "00000001.json"
    content = data.read_bytes()
    match how:
        case "short":
            data.write_bytes(content[:-1])
        case "changed":
            data.write_bytes(content[:300] + bytes([content[300] ^ 1]) + content[301:])
        case "gone":
            data.unlink()
        case "record":
            record.write_text(record.read_text()[:-2])
        case "version":
            record.write_text(record.read_text().replace('"state_version": 1', '"state_version": 99'))
    assert not [each for each in read_states(folder(attempt)) if is_whole(folder(attempt), each)]


class GivenSteps:
    """A reader of a stream with these values; `steps` is where it begins."""

    name = "field"

    def __init__(self, made: StageSettings, path: Path, first: int) -> None:
        self.steps = first
        begin(made, first)
        self._reader = stage.open_reader(path=path)
        for _ in range(first):
            next(self._reader)

    def __next__(self) -> stage.Step:
        step = next(self._reader)
        begin(settings.current(), self._reader.steps_begun)
        return step


@pytest.fixture
def field(tmp_path: Path) -> Path:
    path = tmp_path / "given.bp"
    with stage.open_writer(path=path) as out:
        for step in range(8):
            with out.step():
                out.write("V", np.full(3, step), shape=(3,))
                out.write("W", float(step))
    return path


def test_a_window_goes_on_with_the_steps_before(attempt: StageSettings, field: Path) -> None:
    seen = iter(Windows(GivenSteps(attempt, field, 0), 3, ["V", "W"]))
    assert [next(seen).steps for _ in range(5)] == [(0,), (0, 1), (0, 1, 2), (1, 2, 3), (2, 3, 4)]
    # Saved when all of its steps are new.
    assert [each.steps["field"] for each in read_states(folder(attempt))] == [3]
    again = next(iter(Windows(GivenSteps(attempt, field, 3), 3, ["V", "W"])))
    assert again.steps == (1, 2, 3)
    assert again.read("V")[:, 0].tolist() == again.read("W").tolist() == [1, 2, 3]


def test_a_window_is_saved_with_the_state_of_the_program(attempt: StageSettings, field: Path) -> None:
    first = GivenSteps(attempt, field, 0)
    state = stage.State(n=0)
    seen = iter(Windows(first, 3, "V"))
    for _ in range(5):
        next(seen)
    assert read_states(folder(attempt)) == []
    state.save(n=7)
    given = GivenSteps(attempt, field, 5)
    assert dict(stage.State(n=0)) == {"n": 7}
    assert next(iter(Windows(given, 3, "V"))).steps == (3, 4, 5)


@pytest.mark.parametrize(("length", "wanted"), [(4, "V"), (3, "W"), (3, ["V", "W"])])
def test_a_window_of_another_program_is_refused(
    length: int, wanted: str | list[str], attempt: StageSettings, field: Path
) -> None:
    seen = iter(Windows(GivenSteps(attempt, field, 0), 3, "V"))
    for _ in range(4):
        next(seen)
    given = GivenSteps(attempt, field, 3)
    with pytest.raises(
        stage.StageError, match=r"field: the saved state has 3 steps of V, but the program wants \d ste"
    ):
        next(iter(Windows(given, length, wanted)))


def test_a_window_that_was_not_saved_is_refused(attempt: StageSettings, field: Path) -> None:
    given = GivenSteps(attempt, field, 3)
    stage.State(n=0).save()
    begin(attempt, 3)
    stage.State(n=0)
    with pytest.raises(stage.StageError, match="field: the saved state has no window, but the program wants 3 steps"):
        next(iter(Windows(given, 3, "V")))
