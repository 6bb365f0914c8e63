"""Example 05: the surrogate learns from the stream, and after a kill -9 it is the same, bit for bit."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.pipelines import Done
from tests.support.training_runs import EXAMPLE, last_error, reports, train, train_in_parts
from workflow.compare.compare_runs import compare_runs

pytestmark = pytest.mark.turns(2)

SHORTER = ("--set", "stages.simulation.with.steps=1500")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return train(tmp_path_factory.mktemp("training") / "whole", *SHORTER)


@pytest.mark.slow
def test_the_loss_falls_and_the_error_is_that_of_steps_not_trained_with(whole: Done) -> None:
    seen = reports(whole.folder / "stages/training/stdout.log")
    assert len(seen) >= 10
    # Of the full run: 0.31 → 0.003.
    assert seen[-1][1] < seen[0][1] / 10, seen
    assert last_error(whole) < 0.2
    assert list((whole.folder / "streams").glob("field*.bp")) == [], "the fields stay nowhere"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sst", "bp5", "in parts"])
def test_after_a_kill_it_is_the_same_network(way: str, whole: Done, tmp_path: Path) -> None:
    if way == "in parts":
        again = train_in_parts(tmp_path / "again", *SHORTER)
    else:
        again = train(tmp_path / "again", *SHORTER, "--via", way, kills=2 if way == "sst" else 1)
    found = compare_runs(whole.folder / "training.bp", again.folder / "training.bp")
    assert found.identical, found
    assert last_error(again) == last_error(whole)
    one, other = (np.load(done.folder / "stages/training/work/surrogate.npz") for done in (whole, again))
    assert one.files == other.files
    assert all(np.array_equal(one[name], other[name]) for name in one.files)


@pytest.mark.slow
def test_four_simulations_train_one_network(tmp_path: Path) -> None:
    fewer = ("--set", "stages.simulation.with.steps=450")
    done = train(tmp_path / "members", "--profile", "ensemble", *fewer)
    seen = reports(done.folder / "stages/training/stdout.log")
    assert seen[-1][1] < seen[0][1] / 5, seen
    assert last_error(done) < 0.4
    steps = {stream.name: stream.steps for stream in done.report.streams}
    assert [steps[f"field-{member}"] for member in range(4)] == [46] * 4
    assert steps["field"] == 4 * 46


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    spec = importlib.util.spec_from_file_location("samples", EXAMPLE / "samples.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module


class GivenStep(dict[str, Any]):
    """A step with these variables."""

    def read(self, name: str) -> Any:
        return self[name]


def given(number: int, **more: Any) -> GivenStep:
    return GivenStep(step=number, U=np.full((1, 8, 8), float(number)), V=np.zeros((1, 8, 8)), **more)


def test_pairs_are_of_one_simulation_in_whatever_order_steps_come(samples: ModuleType) -> None:
    pairs = samples.Pairs(10)
    steps = [(200, "a"), (200, "b"), (210, "b"), (210, "a"), (230, "a"), (220, "b"), (240, "a"), (190, "c"), (200, "c")]
    found = []
    for number, member in steps:
        # What is kept between two steps is all that a second attempt needs.
        again = samples.Pairs(10)
        again.from_values(pairs.to_values())
        pairs = again
        pair = pairs.add(given(number, member=member))
        if pair is not None:
            found.append((member, pair[0], float(pair[1][0, 0, 0]), float(pair[2][0, 0, 0])))
    # a lacks 220; of c the first steps are left out.
    assert found == [("b", 200, 200, 210), ("a", 200, 200, 210), ("b", 210, 210, 220), ("a", 230, 230, 240)]


def test_what_is_tested_with_is_bounded(samples: ModuleType) -> None:
    held, count = np.empty((0, 1)), samples.TESTED // samples.PER_PAIR + 3
    for number in range(count):
        held = samples.newest(held, np.full((samples.PER_PAIR, 1), number))
    assert held.shape == (samples.TESTED, 1)
    assert (held[0, 0], held[-1, 0]) == (3, count - 1)


def test_the_inputs_are_means_of_rings_and_the_grid_is_periodic(samples: ModuleType) -> None:
    random = np.random.default_rng(1)
    now, then = random.normal(size=(2, 2, 9, 7))
    inputs, changes = samples.take_cells(300, now, then)
    assert inputs.shape == (samples.PER_PAIR, 20)
    cells = {tuple(change) for change in changes}
    expected = {}
    for y in range(9):
        for x in range(7):
            near = np.mean([now[0, (y + 1) % 9, x], now[0, y - 1, x], now[0, y, (x + 1) % 7], now[0, y, x - 1]])
            expected[tuple((then - now)[:, y, x])] = now[0, y, x], near - now[0, y, x]
    assert cells <= {*expected}
    for cell, change in zip(inputs, changes, strict=True):
        np.testing.assert_allclose(cell[:2], expected[tuple(change)], atol=1e-12)
    again = samples.take_cells(300, now, then)
    np.testing.assert_array_equal(inputs, again[0])
