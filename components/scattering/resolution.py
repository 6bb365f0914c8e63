"""The finite resolution of an instrument: the detector plane as its pixels record it."""

from __future__ import annotations

import math

import numpy as np

from components.scattering.qgrid import Floats, QGrid, centred


def pixel_positions(q_max: float, pixels: int, resolution: float) -> Floats:
    """Positions (1/Å) of pixels along one axis of the plane, over [-q_max, q_max]; 0 pixels: one per resolution."""
    first, spacing, count = centred(q_max, pixels, resolution)
    return first + spacing * np.arange(count, dtype=np.float64)


def smeared(values: Floats, grid: QGrid, resolution: float, rows: Floats, columns: Floats) -> Floats:
    """Intensities on a plane's `grid`, as pixels at `rows` and `columns` (1/Å) see them: [rows, columns].

    Every point of the grid stands for the area around it; its intensity arrives at a pixel with the weight of a
    two-dimensional Gaussian of standard deviation `resolution` (1/Å), normalised to 1 over the plane. So the integral
    over a spot is kept, and its height is that of its integral spread over 2π resolution².
    """
    along_rows, along_columns = (
        _weights(pixels, grid.coordinates(dimension), resolution) for dimension, pixels in enumerate((rows, columns))
    )
    return np.asarray(along_rows @ values @ along_columns.T, dtype=np.float64)


def _weights(pixels: Floats, points: Floats, resolution: float) -> Floats:
    """The one-dimensional Gaussian, [pixels, points]."""
    spacing = points[1] - points[0] if points.size > 1 else 1.0
    distances = (pixels[:, None] - points[None, :]) / resolution
    weights: Floats = np.exp(-0.5 * distances**2) * (spacing / (resolution * math.sqrt(2 * math.pi)))
    return weights
