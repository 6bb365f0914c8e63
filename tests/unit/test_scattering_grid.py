"""The q points: spacing from the box, commensurate reflections, and warnings when peaks would be missed."""

from __future__ import annotations

import numpy as np
import pytest

from components.scattering.qgrid import Box, QGrid, line, plane, too_coarse, volume
from components.scattering.resolution import pixel_positions, smeared

PERIODIC = Box((40.0, 20.0, 10.0), (True, True, True))
FREE = Box((40.0, 20.0, 10.0), (False, False, False))


def test_points_are_first_plus_steps() -> None:
    grid = QGrid((1.0, 0.0, -1.0), ((0.5, 0.0, 0.0), (0.0, 0.0, 0.25)), (3, 5))
    points = grid.points()
    assert points.shape == (3, 5, 3)
    np.testing.assert_allclose(points[2, 4], [2.0, 0.0, 0.0])
    np.testing.assert_array_equal(grid.points(1, 3), points[1:3])
    np.testing.assert_allclose(grid.moduli(), np.linalg.norm(points, axis=-1))
    np.testing.assert_allclose(grid.coordinates(0), [1.0, 1.5, 2.0])
    np.testing.assert_allclose(grid.coordinates(1), [-1.0, -0.75, -0.5, -0.25, 0.0])


@pytest.mark.parametrize("box, turns", [(PERIODIC, 1.0), (FREE, 0.5)])
def test_the_box_chooses_the_spacing(box: Box, turns: float) -> None:
    grid = volume(box, 3.0, (0, 0, 0))
    for axis in range(3):
        q = grid.coordinates(axis)
        multiples = q * box.lengths[axis] / (2.0 * np.pi * turns)
        np.testing.assert_allclose(multiples, np.round(multiples), atol=1e-9)
        assert q[len(q) // 2] == 0.0
        assert q[-1] <= 3.0 < q[-1] + np.diff(q)[0]
    assert too_coarse(grid, box) == []


def test_a_given_number_of_points_spans_q_max_and_contains_zero() -> None:
    for count in (64, 65):
        q = volume(PERIODIC, 8.0, (count, count, count)).coordinates(0)
        assert len(q) == count
        assert q[count // 2] == 0.0
        assert q[0] >= -8.0 - 1e-12
        np.testing.assert_allclose(np.diff(q), 16.0 / count)


def test_coarse_points_are_told() -> None:
    sentences = too_coarse(volume(FREE, 8.0, (64, 64, 64)), FREE)
    assert len(sentences) == 2  # 0.25 1/Å is fine enough for the edge of 10 Å
    assert "q spacing 0.25 1/Å is wider than π/L = 0.07854 1/Å" in sentences[0]


def test_a_plane_has_rows_columns_and_a_place() -> None:
    grid = plane(FREE, 2.0, (0, 32), (2, 0), 0.7)
    assert grid.shape == (13, 32)
    points = grid.points()
    assert np.all(points[..., 1] == 0.7)
    assert np.ptp(points[:, 0, 2]) > 0.0 == np.ptp(points[:, 0, 0])
    np.testing.assert_allclose(grid.coordinates(0), points[:, 0, 2])
    np.testing.assert_allclose(grid.coordinates(1), points[0, :, 0])


def test_a_line_joins_its_ends() -> None:
    grid = line(FREE, np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 8.0]), 0)
    np.testing.assert_allclose(grid.points()[[0, -1]], [[0.0, 0.0, 1.0], [0.0, 0.0, 8.0]], atol=1e-12)
    np.testing.assert_allclose(grid.coordinates(0)[[0, -1]], [1.0, 8.0])
    assert np.diff(grid.coordinates(0))[0] <= np.pi / (2.0 * 10.0)
    assert too_coarse(grid, FREE) == []
    assert len(line(FREE, np.zeros(3), np.ones(3), 7).points()) == 7


def test_a_line_needs_two_ends() -> None:
    with pytest.raises(ValueError, match="two different end points"):
        line(FREE, np.ones(3), np.ones(3), 0)


def test_a_detector_keeps_the_integral_of_a_spot_and_where_it_is() -> None:
    box = Box((18.0, 18.0, 218.0), (True, True, False))  # reflections: columns of points, peaks of two points along z
    grid = plane(box, 4.0, (0, 0), (2, 0), 0.0)
    rows, columns = grid.coordinates(0), grid.coordinates(1)
    computed = np.zeros(grid.shape)
    row, column = int(np.argmin(abs(rows - 1.7))), int(np.argmin(abs(columns + 0.7)))
    computed[row, column] = 5.0
    sigma = 0.06
    vertical, horizontal = pixel_positions(4.0, 0, sigma), pixel_positions(4.0, 201, sigma)
    assert vertical.size == 133 and horizontal.size == 201 and 0.0 in vertical and 0.0 in horizontal
    seen = smeared(computed, grid, sigma, vertical, horizontal)
    area, pixel = np.diff(rows)[0] * np.diff(columns)[0], np.diff(vertical)[0] * np.diff(horizontal)[0]
    assert seen.sum() * pixel == pytest.approx(5.0 * area, rel=1e-6)
    assert vertical @ seen.sum(axis=1) / seen.sum() == pytest.approx(rows[row])
    assert horizontal @ seen.sum(axis=0) / seen.sum() == pytest.approx(columns[column])
    spread = ((vertical - rows[row]) ** 2) @ seen.sum(axis=1) / seen.sum()
    assert spread == pytest.approx(sigma**2, rel=1e-6)
