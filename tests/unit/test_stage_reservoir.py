"""`stage.Reservoir`: which samples it holds, what it gives out, and that a packed one goes on as it was."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from workflow.stage import Reservoir, StageError


def filled(size: int, number: int, seed: int = 0, watermark: int = 1) -> Reservoir:
    reservoir = Reservoir(size, watermark, seed)
    for n in range(number):
        reservoir.put(n=np.int64(n))
    return reservoir


def test_until_it_is_full_it_holds_all() -> None:
    reservoir = filled(8, 5)
    assert (len(reservoir), reservoir.seen) == (5, 5)
    assert reservoir.held()["n"].tolist() == [0, 1, 2, 3, 4]


def test_each_sample_stays_with_the_same_probability() -> None:
    """Of 40 samples a reservoir of 10 holds each in a quarter of the cases: in 500 of 2000, standard deviation 19.4."""
    counts = np.zeros(40, int)
    for seed in range(2000):
        held = filled(10, 40, seed).held()["n"]
        assert len({*held.tolist()}) == 10
        counts[held] += 1
    assert counts.sum() == 20_000
    assert np.abs(counts - 500).max() < 6 * 19.4, counts
    # Chi-square with 39 degrees of freedom is below 72 in 999 of 1000 cases, and smaller where each takes ten.
    assert ((counts - 500) ** 2 / 500).sum() < 72


def test_a_batch_has_different_samples_each_as_often_as_others() -> None:
    reservoir, counts = filled(20, 20, watermark=20), np.zeros(20, int)
    for _ in range(2000):
        batch = reservoir.draw(5)["n"]
        assert len({*batch.tolist()}) == 5
        counts[batch] += 1
    assert np.abs(counts - 500).max() < 6 * 19.4, counts


def test_nothing_is_given_out_before_the_watermark() -> None:
    reservoir = filled(8, 3, watermark=4)
    with pytest.raises(ValueError, match="the reservoir holds 3 samples, and gives out none before 4"):
        reservoir.draw(1)
    ready = [reservoir.is_ready]
    reservoir.put(n=np.int64(3))
    assert [*ready, reservoir.is_ready] == [False, True]
    assert sorted(reservoir.draw(4)["n"].tolist()) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="5 samples cannot be drawn from 4"):
        reservoir.draw(5)


@pytest.mark.parametrize("at", [0, 3, 8, 30])
def test_a_packed_one_goes_on_as_it_was(at: int) -> None:
    def run(reservoir: Reservoir, first: int, last: int) -> list[Any]:
        drawn = []
        for n in range(first, last):
            reservoir.put(x=np.full((2, 3), n, np.float32), n=n)
            if reservoir.is_ready:
                drawn.append({name: values.tolist() for name, values in reservoir.draw(3).items()})
        return drawn

    whole = Reservoir(8, 4, seed=5)
    expected = run(whole, 0, 50)
    first = Reservoir(8, 4, seed=5)
    before = run(first, 0, at)
    packed, second = first.pack(), Reservoir(8, 4, seed=99)
    assert packed.dtype == np.uint8
    second.unpack(packed)
    assert before + run(second, at, 50) == expected
    assert second.pack().tolist() == whole.pack().tolist()
    assert second.held()["x"].dtype == np.float32


def test_several_samples_are_put_as_one_after_the_other() -> None:
    one, several = filled(10, 300, seed=3), Reservoir(10, seed=3)
    for part in np.split(np.arange(300), [7, 100, 101]):
        several.put_all(n=part)
    assert one.held()["n"].tolist() == several.held()["n"].tolist()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="1 ≤ watermark ≤ size, not a watermark of 9 and size 8"):
        Reservoir(8, 9)
    reservoir = Reservoir(8)
    with pytest.raises(ValueError, match="a sample has at least one array"):
        reservoir.put()
    reservoir.put(x=np.zeros(3))
    for wrong in ({"x": np.zeros(4)}, {"x": np.zeros(3, np.float32)}, {"y": np.zeros(3)}):
        with pytest.raises(ValueError, match=r"but the reservoir holds x float64 \(3,\)"):
            reservoir.put(**wrong)
    with pytest.raises(ValueError, match=r"counts them, but the arrays are x \(2, 3\), y \(4,\)"):
        reservoir.put_all(x=np.zeros((2, 3)), y=np.zeros(4))
    assert reservoir.seen == 1
    with pytest.raises(StageError, match="has size 8 and watermark 1, but the program has 9 and 1"):
        Reservoir(9).unpack(reservoir.pack())


def test_its_state_is_text_and_arrays_only() -> None:
    """`stage.State` keeps it as bytes; nothing in them is code."""
    packed = filled(4, 9).pack()
    assert b"pickle" not in packed.tobytes()
    json.dumps(filled(4, 9)._random.bit_generator.state)
