"""A simulation whose analysis does not scale.

    ∂θ/∂t + u·∇θ = κ ∇²θ,   u = (∂ψ/∂x, -∂ψ/∂y) along y and x,   ψ a sum of travelling waves

on a periodic square, its rows over the ranks. Tracers drift in u. Where stream `tracks` is written here, rank 0 gathers
the fields and follows them while the other ranks wait; where stream `field` is written, another stage does that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from workflow import stage
from workflow.component_program import arguments

sys.path.insert(0, str(Path(__file__).parents[1]))
from tracing import Tracers

Floats = npt.NDArray[np.float64]
KAPPA, DT = 0.05, 0.2  # cells² and cells per unit of velocity: stable for |u| ≤ 1
WAVES = ((1, 2, 0.3), (3, 1, -0.2), (2, 5, 0.5), (4, 3, -0.7))  # along y, along x, frequency


class Fields:
    """This rank's rows of θ and ψ."""

    def __init__(self, size: int) -> None:
        self.size, self.time = size, 0.0
        self.start, self.count = stage.block(size)
        self._y = (2 * np.pi / size) * np.arange(self.start - 1, self.start + self.count + 1)[:, None]
        self._x = (2 * np.pi / size) * np.arange(size)[None, :]
        self.theta: Floats = np.sin(self._y[1:-1]) * np.cos(2 * self._x)
        self.psi: Floats = self._stream_function()

    def advance(self, comm: Any | None) -> None:
        """One time step."""
        psi, theta = self._stream_function(), self._with_ghosts(comm)
        self.psi = psi
        across = 0.5 * (np.roll(psi, -1, 1) - np.roll(psi, 1, 1))[1:-1]
        along = -0.5 * (psi[2:] - psi[:-2])
        inner = theta[1:-1]
        right, left = np.roll(inner, -1, 1), np.roll(inner, 1, 1)
        change = KAPPA * (theta[2:] + theta[:-2] + right + left - 4 * inner)
        change -= 0.5 * (across * (theta[2:] - theta[:-2]) + along * (right - left))
        self.theta = inner + DT * change
        self.time += DT

    def _stream_function(self) -> Floats:
        """ψ of this rank's rows and of one more on both sides."""
        psi = np.zeros((self.count + 2, self.size))
        for ky, kx, frequency in WAVES:
            phase = frequency * self.time * 0.01
            psi += np.sin(ky * self._y + phase) * np.cos(kx * self._x - phase) * (self.size / 40) / (ky + kx)
        return psi

    def _with_ghosts(self, comm: Any | None) -> Floats:
        """θ with the neighbours' rows."""
        whole = np.empty((self.count + 2, self.size))
        whole[1:-1] = self.theta
        if comm is None or comm.Get_size() == 1:
            whole[0], whole[-1] = self.theta[-1], self.theta[0]
            return whole
        above, below = (comm.Get_rank() - 1) % comm.Get_size(), (comm.Get_rank() + 1) % comm.Get_size()
        comm.Sendrecv(np.ascontiguousarray(self.theta[-1]), below, recvbuf=whole[0], source=above)
        comm.Sendrecv(np.ascontiguousarray(self.theta[0]), above, recvbuf=whole[-1], source=below)
        return whole


def gather(rows: Floats, size: int, comm: Any | None) -> Floats:
    """The whole field on rank 0, [0, size] on the others."""
    if comm is None or comm.Get_size() == 1:
        return rows
    counts = [stage.block(size, comm.Get_size(), rank)[1] * size for rank in range(comm.Get_size())]
    whole = np.empty((size if comm.Get_rank() == 0 else 0, size))
    comm.Gatherv(np.ascontiguousarray(rows), (whole, counts) if comm.Get_rank() == 0 else None)
    return whole


def write_tracks(out: Any, tracers: Tracers, fields: Fields, elapsed: float, comm: Any | None) -> None:
    """Follow the tracers on rank 0, and write them."""
    psi, theta = (gather(rows, fields.size, comm) for rows in (fields.psi[1:-1], fields.theta))
    count = len(tracers.position)
    position, temperature = np.empty((0, 2)), np.empty(0)
    if stage.rank() == 0:
        tracers.advance(psi, elapsed)
        position, temperature = tracers.position, tracers.sample(theta)
    with out.step():
        out.write("position", position, shape=(count, 2))
        out.write("temperature", temperature, shape=(count,))


def write_field(out: Any, fields: Fields) -> None:
    """Write the fields."""
    shape, start = (fields.size, fields.size), (fields.start, 0)
    with out.step():
        out.write("psi", np.ascontiguousarray(fields.psi[1:-1]), shape=shape, start=start)
        out.write("theta", fields.theta, shape=shape, start=start, lend=True)
        out.write("time", fields.time)


def simulate(args: SimpleNamespace) -> None:
    """Iterations, and after each the tracers or the field."""
    fields, comm = Fields(args.size), stage.communicator()
    follows = stage.is_joined("tracks")
    tracers = Tracers(args.tracers, args.size) if follows else None
    with stage.open_writer("tracks" if follows else "field") as out:
        for _ in range(args.steps):
            before = fields.time
            for _ in range(args.time_steps):
                fields.advance(comm)
            if tracers is not None:
                write_tracks(out, tracers, fields, fields.time - before, comm)
            else:
                write_field(out, fields)


if __name__ == "__main__":
    simulate(arguments(__file__))
