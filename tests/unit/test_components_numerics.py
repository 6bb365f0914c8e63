"""The arithmetic inside the components, against a second way to compute it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

from components.gray_scott.program import Field, check_stable, grid_shape, uniform
from components.histogram.program import combined, count_values, make_edges, moments
from components.plot.drawing import KEPT, Names, Panel, Shot, edges_of, in_readable_units, limits
from components.plot.labels import Quantity
from components.synthetic.program import grid_content, particle_content

Floats = npt.NDArray[np.float64]
PEARSON = SimpleNamespace(F=0.03, k=0.062, Du=0.1, Dv=0.05, dt=1.0, seeds=2, noise=0.01, seed=1)


def laplacian(a: Floats) -> Floats:
    return np.asarray(sum(np.roll(a, shift, axis) for axis in range(3) for shift in (1, -1)) - 6 * a)


@pytest.mark.parametrize("shape", [(7, 6, 5), (1, 9, 8), (1, 1, 12), (24, 25, 26)])
def test_gray_scott_steps_as_the_formula_says(shape: tuple[int, int, int]) -> None:
    field = Field(shape, None)
    field.initialise(PEARSON)
    for _ in range(3):
        u, v = field.inner.copy()
        field.exchange()
        field.advance(PEARSON)
        expected_u = u + PEARSON.dt * (PEARSON.Du * laplacian(u) - u * v * v + PEARSON.F * (1 - u))
        expected_v = v + PEARSON.dt * (PEARSON.Dv * laplacian(v) + u * v * v - (PEARSON.F + PEARSON.k) * v)
        np.testing.assert_allclose(field.inner, [expected_u, expected_v], rtol=1e-13, atol=1e-15)


def test_gray_scott_conserves_mass_but_for_feed_and_removal() -> None:
    field = Field((16, 12, 20), None)
    field.initialise(PEARSON)
    for _ in range(50):
        u, v = (float(part.sum()) for part in field.inner)
        field.exchange()
        field.advance(PEARSON)
        change = PEARSON.dt * (PEARSON.F * (16 * 12 * 20 - u) - (PEARSON.F + PEARSON.k) * v)
        assert float(field.inner.sum()) == pytest.approx(u + v + change, rel=1e-12)


def test_without_reaction_the_mean_stays_and_differences_decay() -> None:
    still = SimpleNamespace(**{**vars(PEARSON), "F": 0.0, "k": 0.0, "noise": 0.1})
    field = Field((12, 12, 12), None)
    field.initialise(still)
    field.cells[1] = 0.0
    mean, spread = float(field.inner[0].mean()), float(field.inner[0].std())
    for _ in range(20):
        field.exchange()
        field.advance(still)
    assert float(field.inner[0].mean()) == pytest.approx(mean, rel=1e-13)
    assert float(field.inner[0].std()) < spread
    assert not field.inner[1].any()


def test_the_noise_is_uniform_and_a_function_of_index_and_seed() -> None:
    numbers = uniform(np.arange(100_000, dtype=np.uint64), seed=3)
    assert numbers.min() >= -1
    assert numbers.max() < 1
    assert abs(numbers.mean()) < 0.01
    assert numbers.std() == pytest.approx(1 / math.sqrt(3), rel=0.01)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    np.testing.assert_array_equal(numbers[500:600], uniform(np.arange(500, 600, dtype=np.uint64), seed=3))
    assert not np.array_equal(numbers, uniform(np.arange(100_000, dtype=np.uint64), seed=4))


def test_gray_scott_refuses_what_cannot_work() -> None:
    assert grid_shape([5]) == (5, 5, 5)
    assert grid_shape([1, 2, 3]) == (1, 2, 3)
    with pytest.raises(SystemExit, match=r"unstable(.|\n)*Use dt ≤ 1.67"):
        check_stable(SimpleNamespace(dt=2.0, Du=0.1, Dv=0.05), (8, 8, 8))
    check_stable(SimpleNamespace(dt=2.0, Du=0.1, Dv=0.05), (1, 8, 8))


def test_moments_of_parts_are_the_moments_of_the_whole() -> None:
    values = np.random.default_rng(1).normal(1e6, 1e-3, 10_001)
    parts = [moments(part) for part in (*np.split(values, [10, 10, 5000]),)]
    found = combined(parts)
    assert (found.number, found.min, found.max) == (values.size, values.min(), values.max())
    assert found.mean == pytest.approx(values.mean(), rel=1e-15)
    assert found.std == pytest.approx(values.std(), rel=1e-9)
    assert math.isnan(combined([moments(np.empty(0))]).mean)


def test_histogram_counts_each_finite_value_once() -> None:
    values = np.array([0.0, 0.1, 0.5, 1.0, 2.0, np.nan, np.inf])
    free = count_values(values, SimpleNamespace(range=None, bins=4), None)
    assert free["counts"].tolist() == [2, 1, 1, 1]
    assert (free["outside"], free["invalid"], free["max"]) == (0, 2, 2.0)
    assert float((free["pdf"] * np.diff(free["edges"])).sum()) == pytest.approx(1)
    fixed = count_values(values, SimpleNamespace(range=[0.0, 1.0], bins=2), None)
    assert fixed["counts"].tolist() == [2, 2]
    assert (fixed["outside"], fixed["mean"]) == (1, free["mean"])


@pytest.mark.parametrize("values", [np.full(9, 3.0), np.empty(0), np.array([np.nan])])
def test_histogram_of_one_value_or_none_has_edges_all_the_same(values: Floats) -> None:
    found = count_values(values, SimpleNamespace(range=None, bins=5), None)
    assert np.all(np.diff(found["edges"]) > 0)
    assert found["counts"].sum() == np.isfinite(values).sum()
    assert np.isfinite(found["pdf"]).all()


def test_synthetic_content_is_its_formula() -> None:
    assert grid_content(5, 3, 2).tolist() == [7, 8, 9]
    assert particle_content(2**20 - 1, 2, 1).tolist() == [[2**20, 2**20 + 1, 2**20 + 2], [1, 2, 3]]


def test_edges_lie_between_the_centres() -> None:
    np.testing.assert_allclose(edges_of(np.array([1.0, 2.0, 4.0])), [0.5, 1.5, 3.0, 5.0])
    np.testing.assert_allclose(edges_of(np.array([7.0])), [6.5, 7.5])


def test_a_panel_keeps_few_steps_evenly_and_always_the_newest() -> None:
    panel = Panel("v", Quantity("v"), 0)
    for step in range(5 * KEPT + 3):
        panel.add(Shot(step, float(step), np.array(float(step)), np.empty(0)))
    kept = [shot.step for shot in panel.shots]
    assert len(kept) <= KEPT
    assert kept[0] == 0
    assert kept[-1] == 5 * KEPT + 2
    assert len(set(np.diff(kept[:-1]).tolist())) == 1
    assert (panel.low, panel.high) == (0.0, 5 * KEPT + 2.0)


def test_pictures_have_units_that_people_can_read() -> None:
    panel = Panel("p", Quantity("density", "2e23 s/kg/m"), 1, x=Quantity("momentum", "5e-24 kg*m/s"))
    panel.add(Shot(0, 40.0, np.array([0.0, 10.0]), np.array([-3.0, 3.0])))
    shown = in_readable_units(panel, Names("time", Quantity("time", "1.5e-10 s"), panel.x), 0)
    assert (shown.value, shown.x) == ("density (10²⁴ s/(kg·m))", "momentum (10⁻²⁴ kg·m/s)")
    assert (shown.time.label, shown.time.moment(6.0)) == ("time (ns)", "t = 6 ns")
    (shot,) = shown.panel.shots
    assert [shot.time, *shot.x, *shot.values] == pytest.approx([6.0, -15.0, 15.0, 0.0, 2.0])
    given = SimpleNamespace(range=[0.0, 5.0], log=False)
    assert limits(shown.panel, given) == pytest.approx((0.0, 1.0)), "a range is in the units of the data"
    names = Names("", Quantity("step"), panel.x)
    assert in_readable_units(Panel("V", Quantity("V"), 0, shots=[shot]), names, 0).value == "V"


def test_axes_without_coordinates_are_called_as_those_of_a_page() -> None:
    """Of a slice those that are left: its own axes, not those of an array of two dimensions."""
    names = Names("", Quantity("step"), Quantity("x"))
    image = Shot(0, 0.0, np.zeros((2, 3)), np.empty(0))
    for dimensions, cut, expected in ((2, 0, (0, 1)), (3, 0, (1, 2)), (3, 1, (0, 2)), (3, 2, (0, 1))):
        shown = in_readable_units(Panel("V", Quantity("V"), dimensions, shots=[image]), names, cut)
        assert (shown.vertical, shown.horizontal) == tuple(f"cell along axis {axis}" for axis in expected)
    given = names._replace(vertical=Quantity("y", "m"), horizontal=Quantity("x", "m"))
    panel = Panel("V", Quantity("V"), 2, shots=[image], extent=(0.0, 3.0, 0.0, 2.0))
    shown = in_readable_units(panel, given, 0)
    assert (shown.vertical, shown.horizontal) == ("y (m)", "x (m)")
    assert in_readable_units(Panel("V", Quantity("V"), 1, shots=[shot_of(4)]), names, 0).x == "cell along axis 0"


def shot_of(size: int) -> Shot:
    return Shot(0, 0.0, np.zeros(size), np.arange(size, dtype=np.float64))


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (1.0, 2.0, False, (1.0, 2.0)),
        (3.0, 3.0, False, (2.7, 3.3)),
        (math.inf, -math.inf, False, (0.0, 1.0)),
        (0.0, 1e3, True, (1e-3, 1e3)),
        (-2.0, -1.0, True, (1e-6, 1.0)),
        (5.0, 5.0, True, (0.5, 5.0)),
    ],
)
def test_limits_can_always_be_drawn(low: float, high: float, log: bool, expected: tuple[float, float]) -> None:
    panel = Panel("v", Quantity("v"), 1, low=low, high=high)
    assert limits(panel, SimpleNamespace(range=None, log=log, decades=6)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "values", [[1.0, 1.0 + 1e-15], [1e17] * 5, [-1e17, -1e17 + 64], [0.0, 0.0], [0.0, 5e-324], [3.0] * 4, [1e300] * 2]
)
@pytest.mark.parametrize("bins", [1, 64, 1000])
def test_histogram_of_a_nearly_constant_field(values: list[float], bins: int) -> None:
    found = count_values(np.array(values), SimpleNamespace(range=None, bins=bins), None)
    assert (found["counts"].sum(), found["outside"]) == (len(values), 0)
    assert np.all(np.diff(found["edges"]) > 0)
    assert np.isfinite(found["pdf"]).all()


def test_histogram_of_a_narrow_field_keeps_its_range() -> None:
    edges = make_edges(None, moments(np.array([1.0, 1.0 + 1e-9])), 100)
    assert (edges[0], edges[-1]) == (1.0, 1.0 + 1e-9)
