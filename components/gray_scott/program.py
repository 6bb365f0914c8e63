"""Gray–Scott reaction and diffusion on a periodic grid, decomposed over MPI ranks.

    ∂U/∂t = Du ∇²U − U V² + F (1 − U)
    ∂V/∂t = Dv ∇²V + U V² − (F + k) V

J. E. Pearson, "Complex Patterns in a Simple System", Science 261 (1993) 189–192,
doi:10.1126/science.261.5118.189. The grid spacing is 1; explicit Euler in time, 7-point Laplacian in space.
The values are the same, bit for bit, for any number of ranks: every cell is computed from the same numbers
in the same order, and the noise is a function of the global cell index.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from workflow import stage
from workflow.component_program import arguments

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

Floats = npt.NDArray[np.float64]

CHUNK = 8192  # cells updated together: two fields and the scratch arrays fit into a core's L2 cache
GOLDEN = 0x9E3779B97F4A7C15


def grid_shape(size: list[int]) -> tuple[int, int, int]:
    """`[L]` → (L, L, L); `[nz, ny, nx]` unchanged."""
    planes, rows, columns = size if len(size) == 3 else size * 3
    return planes, rows, columns


def check_stable(args: SimpleNamespace, shape: tuple[int, int, int]) -> None:
    """Refuse a time step for which explicit Euler is unstable: dt · D · 2 · dimensions > 1."""
    dimensions = sum(length > 1 for length in shape)
    number = args.dt * max(args.Du, args.Dv) * 2 * dimensions
    if number > 1:
        raise SystemExit(
            f"gray_scott: dt = {args.dt} is unstable: dt · D · 2 · {dimensions} = {number:.3g} > 1.\n"
            f"  Use dt ≤ {args.dt / number:.3g}, or smaller Du and Dv"
        )


def uniform(index: npt.NDArray[np.uint64], seed: int) -> Floats:
    """Numbers in [−1, 1), one per index: the SplitMix64 finaliser of index and seed.

    G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014, doi:10.1145/2660193.2660195.
    """
    z = index + np.uint64((seed + 1) * GOLDEN & 0xFFFFFFFFFFFFFFFF)
    z *= np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    numbers: Floats = (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return numbers


class Field:
    """This rank's block of U and V with one ghost cell on every side, and its neighbours.

    `cells` is float64 [2, nz+2, ny+2, nx+2]: U, then V.
    """

    def __init__(self, shape: tuple[int, int, int], comm: Intracomm | None) -> None:
        rank, ranks = stage.rank(), stage.size()
        self.comm = comm
        self.shape = shape
        self.parts = stage.grid(shape, ranks)
        self.start, self.count = stage.block_of(shape, self.parts, rank)
        self.cells = np.empty((2, *(n + 2 for n in self.count)))
        self._next = np.empty_like(self.cells)
        self._scratch = np.empty((2, CHUNK))
        place = [int(i) for i in np.unravel_index(rank, self.parts)]
        self._neighbours = []
        for axis, parts in enumerate(self.parts):
            pair = [[*place[:axis], (place[axis] + move) % parts, *place[axis + 1 :]] for move in (-1, 1)]
            self._neighbours.append([int(np.ravel_multi_index(p, self.parts)) for p in pair])

    @property
    def inner(self) -> Floats:
        """The block without its ghosts, [2, nz, ny, nx], a view."""
        inner: Floats = self.cells[:, 1:-1, 1:-1, 1:-1]
        return inner

    def exchange(self) -> None:
        """Fill the ghost cells, axis by axis with whole planes, so that edges and corners are filled too."""
        for axis in range(3):
            low, high = self._planes(axis)
            if self.parts[axis] == 1:
                low[0][...], high[0][...] = high[1], low[1]
                continue
            assert self.comm is not None
            below, above = self._neighbours[axis]
            from_below, from_above = np.empty(low[0].shape), np.empty(low[0].shape)
            requests = [
                self.comm.Irecv(from_below, below, tag=1),
                self.comm.Irecv(from_above, above, tag=2),
                self.comm.Isend(np.ascontiguousarray(high[1]), above, tag=1),
                self.comm.Isend(np.ascontiguousarray(low[1]), below, tag=2),
            ]
            for request in requests:
                request.Wait()
            low[0][...], high[0][...] = from_below, from_above

    def _planes(self, axis: int) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """((ghost, first inner), (ghost, last inner)) planes of an axis, of both fields."""
        along = np.moveaxis(self.cells, axis + 1, 0)
        return (along[0], along[1]), (along[-1], along[-2])

    def advance(self, args: SimpleNamespace) -> None:
        """One time step of the inner cells; the ghosts are undefined afterwards.

        All cells from the first inner one to the last are updated as one contiguous range: faster than
        rows of inner cells, although it also computes ghost cells, which the next exchange overwrites.
        """
        u, v = self.cells.reshape(2, -1)
        next_u, next_v = self._next.reshape(2, -1)
        row = self.cells.shape[3]
        plane = row * self.cells.shape[2]
        first, end = plane + row + 1, u.size - plane - row - 1
        keep_u = 1.0 - args.dt * (6.0 * args.Du + args.F)
        keep_v = 1.0 - args.dt * (6.0 * args.Dv + args.F + args.k)
        for start in range(first, end, CHUNK):
            stop = min(start + CHUNK, end)
            reaction, term = self._scratch[:, : stop - start]
            here = slice(start, stop)
            np.multiply(v[here], v[here], out=reaction)
            reaction *= u[here]
            reaction *= args.dt
            for old, new, keep, diffusion in ((u, next_u[here], keep_u, args.Du), (v, next_v[here], keep_v, args.Dv)):
                np.add(old[start - plane : stop - plane], old[start + plane : stop + plane], out=new)
                for shift in (-row, row, -1, 1):
                    new += old[start + shift : stop + shift]
                new *= args.dt * diffusion
                new += np.multiply(old[here], keep, out=term)
            next_u[here] -= reaction
            next_u[here] += args.dt * args.F
            next_v[here] += reaction
        self.cells, self._next = self._next, self.cells

    def initialise(self, args: SimpleNamespace) -> None:
        """Pearson's initial state: U = 1, V = 0 except for cubes with U = 1/2, V = 1/4; both perturbed by noise."""
        u, v = self.inner
        u[...], v[...] = 1.0, 0.0
        where = np.meshgrid(*(np.arange(s, s + n) for s, n in zip(self.start, self.count, strict=True)), indexing="ij")
        edge = max(6, min((n for n in self.shape if n > 1), default=1) // 8)  # smaller cubes die out
        for number in range(args.seeds):
            places = uniform(np.arange(3, dtype=np.uint64) + np.uint64(3 * number), args.seed)
            inside = np.ones(self.count, dtype=bool)
            for axis, length in enumerate(self.shape):
                centre = length // 2 if number == 0 else int((places[axis] + 1.0) / 2.0 * length)
                distance = (where[axis] - centre + edge // 2) % length  # periodic
                inside &= distance < edge
            u[inside], v[inside] = 0.5, 0.25
        cell = np.ravel_multi_index(tuple(where), self.shape).astype(np.uint64)
        cells = np.uint64(np.prod(self.shape))
        first = np.uint64(3 * args.seeds)  # the indices before it are used for the positions of the cubes
        u *= 1.0 + args.noise * uniform(cell + first, args.seed)
        v *= 1.0 + args.noise * uniform(cell + first + cells, args.seed)


def main() -> None:
    """Advance the field and write it every `write_every` steps."""
    args = arguments(__file__)
    shape = grid_shape(args.size)
    check_stable(args, shape)
    field = Field(shape, stage.communicator())
    field.initialise(args)
    with stage.open_writer("field") as out:
        for name in ("F", "k", "Du", "Dv", "dt", "noise", "seed"):
            out.attribute(name, getattr(args, name))
        state = stage.State(step=0, cells=field.inner)
        field.inner[...] = state["cells"]
        for step in range(state["step"], args.steps + 1):
            if step % args.write_every == 0:
                state.save(step=step, cells=field.inner)
                with out.step():
                    u, v = np.ascontiguousarray(field.inner)
                    out.write("U", u, shape=shape, start=field.start, lend=True)
                    out.write("V", v, shape=shape, start=field.start, lend=True)
                    out.write("step", np.int32(step))
            if step < args.steps:
                if step % args.write_every == 0:
                    following = step // args.write_every + 1
                    vars(args).update(stage.steered(following, F=args.F, k=args.k))
                field.exchange()
                field.advance(args)


if __name__ == "__main__":
    main()
