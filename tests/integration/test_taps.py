"""Taps in real runs: whatever they do, all others get every step, and what a tap misses is counted."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import pytest

from tests.support.pipelines import HOLDING, Done, run
from workflow.run.processes.process_reaper import find_members
from workflow.run.records.events_file import read_events
from workflow.run.records.run_directory import read_filled_plan
from workflow.run.state.lifecycle_events import DeadlinePassed

pytestmark = pytest.mark.turns(2)

STEPS = 30
KEEP = "archive, with: {path: kept.bp}"
STEP = ["--set", "deadlines.step=8 s"]
PIPELINE = """
stages:
  sim: {component: synthetic, with: {grid_points: 5000, particles: 300, steps: %d%s}}
  keep: {component: %s}
streams:
  data:
    from: sim
    to: keep
    via: %s
    tap: %s
"""


def tapped(
    folder: Path, tap: str, via: str = "sst", keep: str = KEEP, pace: str = "", options: Sequence[str] = (), **how: Any
) -> Done:
    text = PIPELINE % (STEPS, pace, keep, via, tap.replace("HOLDING", str(HOLDING)))
    return run(folder, text, *options, **how)


def steps_of(path: Path) -> list[dict[str, Any]]:
    """All steps of a file, read by adios2 alone."""
    with adios2.Stream(str(path), "r") as stream:
        return [{name: stream.read(name) for name in stream.available_variables()} for _ in stream.steps()]


def assert_synthetic(path: Path, numbers: list[int]) -> None:
    """The file holds these steps of component synthetic, bit for bit, and nothing else."""
    steps = steps_of(path)
    assert [int(step["step"]) for step in steps] == numbers
    for step in steps:
        number = int(step["step"])
        grid, index = np.arange(5000, dtype=np.uint64) + np.uint64(number), np.arange(300)
        particles = (index[:, None] + np.arange(3) + number).astype(np.float32)
        assert sorted(step) == ["grid", "particles", "step"]
        np.testing.assert_array_equal(step["grid"], grid, strict=True)
        np.testing.assert_array_equal(step["particles"], particles, strict=True)


def assert_counted(done: Done, tap: str, written: int) -> int:
    """What was created for a tap is what it read and what was dropped. Returns the latter."""
    stream = done.report.stream(tap)
    (reader,) = stream.readers
    assert reader.stage == tap
    assert reader.steps is not None
    assert reader.dropped is not None
    assert (stream.steps, reader.steps + reader.dropped) == (written, written)
    return reader.dropped


def test_a_slow_tap_slows_nobody(tmp_path: Path) -> None:
    """It holds its first step until the archive is whole, which it could never be if anybody waited for the tap."""
    kept = tmp_path / "run" / "kept.bp"
    done = tapped(tmp_path, f"{{slow: {{component: HOLDING, with: {{at: 0, until: {kept}}}}}}}")
    assert done.code == 0, done.said
    assert_synthetic(kept, list(range(STEPS)))
    reads = {reader.stage: reader.steps for reader in done.report.stream("data").readers}
    assert reads == {"keep": STEPS, "data-relay": STEPS}
    # The queue had room for two; SST dropped what came then.
    assert assert_counted(done, "slow", STEPS) >= STEPS - 4
    assert done.numbers("slow")[:2] == [0, 1]
    missed = done.report.stream("slow").readers[0].dropped
    said = f"slow missed {missed} of the {STEPS} steps of data offered to it: its full queue discards steps"
    assert said in done.report.notes


def test_a_tap_that_starts_slowly_is_waited_for_in_the_rendezvous(tmp_path: Path) -> None:
    """It opens its stream when the simulation is already in open: which then lasts, and no step waits."""
    begun = tmp_path / "run/stages/sim/metrics.jsonl"
    given = f"""{{after: {begun}, holds: '"kind": "opening"'}}"""
    done = tapped(tmp_path, f"{{late: {{component: HOLDING, with: {given}}}}}")
    assert done.code == 0, done.said
    assert done.numbers("late")[0] == 0
    (asked,) = [each["t"] for each in lines_of(tmp_path, "late") if each["kind"] == "opening"]
    (opened,) = [each["t"] for each in lines_of(tmp_path, "sim") if each["kind"] == "open"]
    assert asked < opened
    assert_counted(done, "late", STEPS)


def lines_of(folder: Path, stage: str) -> list[dict[str, Any]]:
    """What a stage noted."""
    text = (folder / "run/stages" / stage / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_tap_may_ask_to_be_waited_for(tmp_path: Path) -> None:
    done = tapped(tmp_path, "{all: {component: HOLDING, queue: {when_full: block}}}")
    assert done.code == 0, done.said
    assert done.numbers("all") == list(range(STEPS))
    assert [stage.name for stage in done.report.stages] == ["sim", "keep", "all"]


@pytest.mark.parametrize("via", ["sst", "bp5", "bp5\n    coupling: live"])
def test_every_tenth_step(via: str, tmp_path: Path) -> None:
    tap = "{thin: {component: archive, every: 10, queue: {when_full: block}, with: {path: thin.bp}}}"
    done = tapped(tmp_path, tap, via)
    assert done.code == 0, done.said
    assert_synthetic(tmp_path / "run/kept.bp", list(range(STEPS)))
    assert_synthetic(tmp_path / "run/thin.bp", [0, 10, 20])
    assert assert_counted(done, "thin", 3) == 0


def test_of_a_file_a_tap_is_a_reader(tmp_path: Path) -> None:
    done = tapped(tmp_path, "{all: {component: archive, with: {path: all.bp}}}", "bp5")
    assert done.code == 0, done.said
    assert_synthetic(tmp_path / "run/all.bp", list(range(STEPS)))
    assert [reader.stage for reader in done.report.stream("data").readers] == ["keep", "all"]
    assert len(done.report.streams) == 1


def test_the_latest_step_is_a_new_one(tmp_path: Path) -> None:
    """The tap holds its first step until its neighbour is at step 15; what it gets then is no step from before."""
    at15, noted = tmp_path / "at15", tmp_path / "run/stages/last/metrics.jsonl"
    # The neighbour goes on when the tap has given its step back: then it asks for another one.
    given_back = """'"kind": "step"'"""
    keep = f"{HOLDING}, with: {{at: 15, touch: {at15}, until: {noted}, holds: {given_back}}}"
    tap = f"{{last: {{component: HOLDING, latest: true, with: {{at: 0, until: {at15}}}}}}}"
    done = tapped(tmp_path, tap, keep=keep)
    assert done.code == 0, done.said
    assert done.numbers("keep") == list(range(STEPS))
    numbers = done.numbers("last")
    assert numbers[0] == 0
    assert len(numbers) > 1
    # The relay may lag behind its neighbour by the queue of the simulation: two steps, and the one that is underway.
    assert all(number >= 12 for number in numbers[1:]), numbers
    assert numbers == sorted(set(numbers))
    assert assert_counted(done, "last", STEPS) == STEPS - len(numbers) >= 10


@pytest.mark.parametrize(("how", "reason"), [("raise", "ended with exit code 1"), ("kill", "was killed by signal 9")])
@pytest.mark.parametrize("required", [False, True])
def test_a_tap_that_fails_is_reported_and_the_others_go_on(
    required: bool, how: str, reason: str, tmp_path: Path
) -> None:
    needed = ", required: true" if required else ""
    done = tapped(tmp_path, f"{{weak: {{component: HOLDING, with: {{at: 2, fail: {how}}}{needed}}}}}")
    assert done.code == int(required), done.said
    assert_synthetic(tmp_path / "run/kept.bp", list(range(STEPS)))
    run_ = done.report.run
    assert (run_.state, run_.stage) == (("failed", "weak") if required else ("succeeded", ""))
    if required:
        assert reason in run_.reason
        assert "it is a tap, and the stages beside the taps succeeded" in run_.reason
    else:
        assert f"warning: tap weak {reason}" in done.said
        assert f"tap weak {reason}" in done.report.warnings[0]
    states = {stage.name: stage.state for stage in done.report.stages}
    assert states == {"sim": "succeeded", "keep": "succeeded", "weak": "failed", "data-relay": "succeeded"}


def assert_spared(done: Done, tap: str) -> None:
    """All but the tap did what they should, and nothing of the tap is left."""
    assert done.code == 0, done.said
    assert_synthetic(done.folder / "kept.bp", list(range(STEPS)))
    assert f"warning: tap {tap} was ended: no step for 8 s: " in done.said
    states = {stage.name: stage.state for stage in done.report.stages}
    assert states == {"sim": "succeeded", "keep": "succeeded", tap: "failed", "data-relay": "succeeded"}
    passed = [event for event in read_events(done.folder) if isinstance(event, DeadlinePassed)]
    assert [(event.deadline, event.stage) for event in passed] == [("step", tap)]
    assert find_members(str(done.folder)) == set()


# While the simulation goes on, and after it, when its relay waits in close for the tap to take what is left.
@pytest.mark.parametrize(("how", "pace"), [("deaf", ", compute_time: 400 ms"), ("hang", "")])
def test_a_tap_that_hangs_is_ended_and_the_others_go_on(how: str, pace: str, tmp_path: Path) -> None:
    tap = f"{{stiff: {{component: HOLDING, with: {{at: 2, fail: {how}}}}}}}"
    assert_spared(tapped(tmp_path, tap, pace=pace, options=STEP), "stiff")


def test_of_a_tap_that_hangs_all_ranks_are_ended(tmp_path: Path) -> None:
    python = os.environ.get("WF_MPI_PYTHON", "")
    if not python:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    tap = "{stiff: {component: HOLDING, ranks: 2, with: {at: 2, fail: deaf}}}"
    assert_spared(tapped(tmp_path, tap, python=python, options=STEP), "stiff")


def test_the_steps_of_a_tap_may_be_further_apart_than_the_deadline(tmp_path: Path) -> None:
    """Each step of the simulation comes in time; the tap of every 25th waits 10 s, longer than any step may take."""
    tap = "{all: {component: 'null'}, rare: {component: archive, every: 25, with: {path: rare.bp}}}"
    done = tapped(tmp_path, tap, pace=", compute_time: 400 ms", options=STEP)
    assert done.code == 0, done.said
    assert_synthetic(tmp_path / "run/rare.bp", [0, 25])


def test_a_required_tap_that_fails_before_it_opens_stops_the_run_at_once(tmp_path: Path) -> None:
    done = tapped(tmp_path, "{wrong: {component: HOLDING, with: {fail: early}, required: true}}")
    assert done.code == 1
    assert done.report.run.stage == "wrong"
    assert "exit code 1" in done.report.run.reason
    assert done.report.stage("sim").state == "stopped"


FINE = "fine: {component: archive, every: 3, queue: {limit: 30}, with: {path: fine.bp}}"


@pytest.mark.parametrize("way", ["relayed", "block", "file"])
def test_a_tap_that_fails_before_it_opens_is_a_warning(way: str, tmp_path: Path) -> None:
    """Its relay waits for it in open, or the simulation itself does."""
    block = ", queue: {when_full: block}" if way == "block" else ""
    taps = f"{{wrong: {{component: HOLDING, with: {{fail: early}}{block}}}, {FINE}}}"
    done = tapped(tmp_path, taps, "bp5" if way == "file" else "sst")
    assert done.code == 0, done.said
    assert_synthetic(tmp_path / "run/kept.bp", list(range(STEPS)))
    assert_synthetic(tmp_path / "run/fine.bp", list(range(0, STEPS, 3)))
    states = {stage.name: stage.state for stage in done.report.stages}
    assert states.pop("wrong") == "failed"
    assert set(states.values()) == {"succeeded"}
    assert "warning: tap wrong ended with exit code 1" in done.said
    assert find_members(str(done.folder)) == set()


def test_a_tap_that_never_opens_is_ended_by_the_deadline_of_the_start(tmp_path: Path) -> None:
    taps = f"{{late: {{component: HOLDING, with: {{after: {tmp_path}/never}}}}, {FINE}}}"
    done = tapped(tmp_path, taps, options=["--set", "deadlines.start=6 s"])
    assert done.code == 0, done.said
    assert_synthetic(tmp_path / "run/fine.bp", list(range(0, STEPS, 3)))
    assert "warning: tap late was ended: streams not open within 4.8 s" in done.said


def test_several_taps_share_a_relay(tmp_path: Path) -> None:
    """Each has a queue of its own: a slow one costs the other nothing."""
    kept = tmp_path / "run" / "kept.bp"
    taps = f"""
      slow: {{component: HOLDING, with: {{at: 0, until: {kept}}}}}
      third: {{component: archive, every: 3, queue: {{limit: {STEPS}}}, with: {{path: third.bp}}}}
"""
    done = tapped(tmp_path, taps)
    assert done.code == 0, done.said
    assert_synthetic(tmp_path / "run/third.bp", list(range(0, STEPS, 3)))
    assert assert_counted(done, "third", STEPS // 3) == 0
    assert assert_counted(done, "slow", STEPS) > 0
    plan = read_filled_plan(tmp_path / "run")
    assert [stage.name for stage in plan.stages if stage.added == "relay"] == ["data-relay"]
