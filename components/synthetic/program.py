"""A synthetic simulation: every rank writes a block of a grid and of particles at a given rate.

The default sizes are those of LowFive's synthetic benchmark (T. Peterka et al., IPDPS 2023,
doi:10.1109/IPDPS54959.2023.00102): per rank 10⁶ grid points of one 64-bit number and 10⁶ particles of three 32-bit
floats.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from workflow import stage
from workflow.component_program import arguments

BYTES_PER_PAIR = 8 + 12  # one grid point and one particle
PERIOD = 2**20  # of the particles' values: they are exact in float32 for 15 million steps


def grid_content(start: int, count: int, step: int) -> npt.NDArray[np.uint64]:
    """The values of `grid[start : start + count]` at a step."""
    return np.arange(start + step, start + step + count, dtype=np.uint64)


def particle_content(start: int, count: int, step: int) -> npt.NDArray[np.float32]:
    """The values of `particles[start : start + count]` at a step, [count, 3]."""
    index = np.arange(start, start + count, dtype=np.int64) % PERIOD + step
    return (index[:, None] + np.arange(3)).astype(np.float32)


def simulate_computing(seconds: float, spin: bool) -> None:
    """Return after `seconds`; with `spin` the core is busy meanwhile."""
    if not spin:
        time.sleep(seconds)
        return
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def main() -> None:
    """Write the steps."""
    args = arguments(__file__)
    points, particles = args.grid_points, args.particles
    if args.bytes:
        points = particles = max(1, args.bytes // BYTES_PER_PAIR)
    rank, ranks = stage.rank(), stage.size()
    grid = grid_content(rank * points, points, 0)
    positions = particle_content(rank * particles, particles, 0)
    with stage.open_writer("output") as out:
        for step in range(args.steps):
            simulate_computing(args.compute_time, args.spin)
            with out.step():
                if points:
                    out.write("grid", grid, shape=(ranks * points,), start=(rank * points,))
                if particles:
                    out.write("particles", positions, shape=(ranks * particles, 3), start=(rank * particles, 0))
                out.write("step", np.int64(step))
            grid += np.uint64(1)
            positions += np.float32(1)


if __name__ == "__main__":
    main()
