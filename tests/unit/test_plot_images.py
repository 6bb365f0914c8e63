"""Which steps of an image the component plot shows in its summary."""

from __future__ import annotations

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize

from components.plot.drawing import image_steps, is_plain


def test_images_are_spread_evenly_and_plain_ones_at_the_beginning_are_left_out() -> None:
    assert image_steps([False] * 61, 4) == [0, 20, 40, 60]
    assert image_steps([True] * 12 + [False] * 49, 4) == [24, 36, 48, 60]
    assert image_steps([True] * 61, 4) == [0, 20, 40, 60], "nothing to see anywhere"
    assert image_steps([True, True, False, False], 3) == [0, 2, 3], "too few steps are left"
    assert image_steps([True, False], 1) == [1]


def test_an_image_of_one_colour_is_plain() -> None:
    scale = ScalarMappable(Normalize(0.0, 0.1))
    assert is_plain(np.full((2, 2), 0.05), scale) and is_plain(np.array([[0.0, 1e-6]]), scale)
    assert is_plain(np.array([[0.2, 0.3]]), scale), "both beyond the scale"
    assert not is_plain(np.array([[0.0, 0.05]]), scale)
    logarithmic = ScalarMappable(LogNorm(1e-3, 1.0))
    assert is_plain(np.zeros((2, 2)), logarithmic) and not is_plain(np.array([[0.0, 0.5]]), logarithmic)
