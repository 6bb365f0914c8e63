"""Samples of compressed variables: found inside the boxes that are read, compared, added up over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workflow.formats.stage_file import StreamEnd
from workflow.stage.compressed_variables import Accuracy, Comparer, Operators, Sampler, VariableOperator, largest_error
from workflow.stage.variables import BlockData, Selection

ZFP = VariableOperator("zfp", {"accuracy": "0.1"}, 0.1)
SHAPE = (40, 50, 3)
FIELD = np.random.default_rng(1).random(SHAPE)


def block(
    values: Any, start: tuple[int, ...] = (0, 0, 0), shape: tuple[int, ...] = SHAPE, name: str = "x"
) -> BlockData:
    return BlockData(name, values.dtype.name, values, shape, start)


def samples(*blocks: BlockData, step: int = 0) -> str:
    sampler = Sampler(None)
    for each in blocks:
        sampler.take(each, ZFP, step)
    written = sampler.block()
    assert written is not None
    return str(written.values)


def compared(text: str, arrived: Any, start: tuple[int, ...] = (0, 0, 0)) -> Accuracy:
    comparer = Comparer(None)
    comparer.begin(text)
    comparer.compare([Selection("x", start, arrived.shape)], [arrived], {"x": SHAPE})
    comparer.end()
    return comparer.total["x"]


def test_unchanged_values_have_no_error() -> None:
    found = compared(samples(block(FIELD)), FIELD)
    assert found == Accuracy("zfp", 0.1, 0.0, 1024, 1)


def test_the_error_is_that_of_the_box_that_was_read() -> None:
    changed = FIELD.copy()
    changed[10:20] += 0.05
    text = samples(block(FIELD))
    assert compared(text, changed[10:20], (10, 0, 0)).largest == pytest.approx(0.05)
    assert compared(text, changed[:10], (0, 0, 0)).largest == 0.0
    part = compared(text, changed[10:20], (10, 0, 0)).compared
    assert 150 < part < 400  # about a quarter of 1024


def test_positions_are_those_in_the_global_array() -> None:
    """The block of a rank that does not begin at the origin."""
    text = samples(block(FIELD[25:], (25, 0, 0)))
    assert compared(text, FIELD).largest == 0.0
    assert compared(text, FIELD).compared == 1024
    assert compared(text, FIELD[:25]).compared == 0


def test_small_blocks_are_sampled_completely() -> None:
    assert compared(samples(block(FIELD[:2])), FIELD).compared == 2 * 50 * 3


def test_positions_depend_on_the_step() -> None:
    assert samples(block(FIELD)) == samples(block(FIELD))
    assert samples(block(FIELD)) != samples(block(FIELD), step=1)


def test_an_exceeded_bound_is_reported_and_stays_so() -> None:
    comparer = Comparer(None)
    for error, exceeded in ((0.05, []), (0.2, ["x"]), (0.0, ["x"])):
        comparer.begin(samples(block(FIELD)))
        comparer.compare([Selection("x", (0, 0, 0), SHAPE)], [FIELD + error], {"x": SHAPE})
        assert comparer.end() == exceeded
    assert comparer.total["x"].steps == 3
    assert comparer.total["x"].largest == pytest.approx(0.2)


@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "int64", "uint8"])
def test_all_types_can_be_sampled(kind: str) -> None:
    values = (FIELD * 200).astype(kind)
    assert compared(samples(block(values)), values).largest == 0.0


def test_largest_error() -> None:
    one, nan, inf = np.array([1.0]), np.array([np.nan]), np.array([np.inf])
    assert largest_error(one, one + 0.5, lossy=True) == 0.5
    assert largest_error(nan, nan, lossy=True) == 0.0
    assert largest_error(inf, inf, lossy=True) == 0.0
    assert largest_error(one, nan, lossy=True) == np.inf
    assert largest_error(one, inf, lossy=True) == np.inf
    assert largest_error(one[:0], one[:0], lossy=True) == 0.0
    assert largest_error(np.array([1 + 2j]), np.array([1 + 5j]), lossy=True) == 3.0
    assert largest_error(one, one, lossy=False) == 0.0
    assert largest_error(nan, nan, lossy=False) == 0.0
    # equal as numbers, not as bits
    assert largest_error(np.array([0.0]), np.array([-0.0]), lossy=False) == np.inf
    assert largest_error(np.array([3], np.uint8), np.array([5], np.uint8), lossy=False) == 2.0


def operators(**wanted: dict[str, Any]) -> Operators:
    return Operators(StreamEnd("s", "s", "write", "BP5", "s.bp", operators=wanted))


def test_which_operator_a_variable_gets() -> None:
    zfp: dict[str, Any] = {"type": "zfp", "parameters": {"accuracy": "1"}, "bound": 1.0}
    every = operators(**{"*": zfp, "y": {"type": "blosc", "parameters": {}, "bound": 0.0}})
    assert every.of(block(FIELD)) == ("zfp", {"accuracy": "1"}, 1.0)
    assert every.of(block(FIELD, name="y")) == ("blosc", {}, 0.0)
    # `*` applies only where zfp can compress: not to integers or single values
    assert every.of(block(FIELD.astype(int))) is None
    assert every.of(block(np.array(1.0), (), ())) is None
    assert operators().of(block(FIELD)) is None


def test_a_named_variable_that_cannot_be_compressed_is_an_error() -> None:
    named = operators(x={"type": "zfp", "parameters": {}, "bound": 1.0})
    with pytest.raises(RuntimeError, match="zfp cannot compress x: it is of type int64"):
        named.of(block(FIELD.astype(np.int64)))
    with pytest.raises(RuntimeError, match="single value"):
        named.of(block(np.array(1.0), (), ()))
