"""Writes particles with six attributes in one of four ways, takes the time, and reads all of it back.

$WAY is h5part (one shared file of HDF5), mpiio (one shared file), posix (a file for each rank) or bp5; $PARTICLES is
their number over all ranks, $STEPS that of the time steps. The bandwidth, from before the opening to after the closing
on the slowest rank, goes into figures.json. Nothing is flushed to disk. h5py without MPI gathers on rank 0.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from mpi4py import MPI

ATTRIBUTES = ("x", "y", "z", "px", "py", "pz")
COMM = MPI.COMM_WORLD
RANK, RANKS = COMM.rank, COMM.size
PARTICLES, STEPS = int(os.environ["PARTICLES"]), int(os.environ["STEPS"])
PARTS = [PARTICLES * rank // RANKS for rank in range(RANKS + 1)]


def values(attribute: int, step: int, first: int, end: int) -> np.ndarray:
    """An attribute of the particles from `first` to `end`: every value of a run is another one."""
    return np.arange(first, end, dtype=np.float64) + PARTICLES * (attribute + len(ATTRIBUTES) * step)


def place(attribute: int, step: int, first: int) -> int:
    """Where a value is in a shared file without a format: steps of six arrays, in bytes."""
    return 8 * (PARTICLES * (attribute + len(ATTRIBUTES) * step) + first)


def write_h5part(data: list[np.ndarray]) -> None:
    """A group `Step#n` for each step, a dataset for each attribute; independent writes, as in the paper."""
    import h5py

    if not h5py.get_config().mpi:
        write_h5part_on_one(data)
        return
    with h5py.File("particles.h5", "w", driver="mpio", comm=COMM) as file:
        for step in range(STEPS):
            group = file.create_group(f"Step#{step}")
            for name, array in zip(ATTRIBUTES, data, strict=True):
                group.create_dataset(name, (PARTICLES,), "f8")[PARTS[RANK] : PARTS[RANK + 1]] = array + stride(step)


def write_h5part_on_one(data: list[np.ndarray]) -> None:
    """The same file, by rank 0 for all."""
    import h5py

    file = h5py.File("particles.h5", "w") if RANK == 0 else None
    whole = np.empty(PARTICLES) if RANK == 0 else None
    counts = np.diff(PARTS)
    for step in range(STEPS):
        for name, array in zip(ATTRIBUTES, data, strict=True):
            COMM.Gatherv(array + stride(step), (whole, counts) if RANK == 0 else None)
            if file is not None:
                file[f"Step#{step}/{name}"] = whole
    if file is not None:
        file.close()


def write_mpiio(data: list[np.ndarray]) -> None:
    """Each rank its part of each array, independently."""
    file = MPI.File.Open(COMM, "particles.raw", MPI.MODE_CREATE | MPI.MODE_WRONLY)
    for step in range(STEPS):
        for number, array in enumerate(data):
            file.Write_at(place(number, step, PARTS[RANK]), array + stride(step))
    file.Close()


def write_posix(data: list[np.ndarray]) -> None:
    """A file for each rank."""
    with Path(f"particles-{RANK}.raw").open("wb", buffering=0) as file:
        for step in range(STEPS):
            for array in data:
                file.write(memoryview(array + stride(step)))


def write_bp5(data: list[np.ndarray]) -> None:
    """One BP5 output, its steps those of ADIOS2."""
    import adios2

    with adios2.Stream("particles.bp", "w", COMM) as out:
        for step in range(STEPS):
            out.begin_step()
            for name, array in zip(ATTRIBUTES, data, strict=True):
                out.write(name, array + stride(step), [PARTICLES], [PARTS[RANK]], [array.size])
            out.end_step()


def stride(step: int) -> float:
    """What the values of a step are more than those of step 0."""
    return float(PARTICLES * len(ATTRIBUTES) * step)


def read(way: str, number: int, step: int, first: int, end: int) -> np.ndarray:
    """Values as they were written, read without MPI; `first` to `end` is the part of one rank."""
    if way == "h5part":
        import h5py

        with h5py.File("particles.h5") as file:
            return np.asarray(file[f"Step#{step}/{ATTRIBUTES[number]}"][first:end])
    if way == "mpiio":
        return np.fromfile("particles.raw", np.float64, end - first, offset=place(number, step, first))
    if way == "posix":
        skipped = 8 * (end - first) * (number + len(ATTRIBUTES) * step)
        return np.fromfile(f"particles-{PARTS.index(first)}.raw", np.float64, end - first, offset=skipped)
    import adios2

    with adios2.FileReader("particles.bp") as file:
        return file.read(ATTRIBUTES[number], [first], [end - first], step_selection=[step, 1])


def check(way: str) -> None:
    """Each rank reads what its neighbour wrote. Raises SystemExit where it is something else."""
    other = (RANK + 1) % RANKS
    first, end = PARTS[other], PARTS[other + 1]
    for step in range(STEPS):
        for number, name in enumerate(ATTRIBUTES):
            if not np.array_equal(read(way, number, step, first, end).ravel(), values(number, step, first, end)):
                raise SystemExit(f"{way}: step {step}, {name}: the data are not what was written")


def main() -> None:
    """Write, take the time, check."""
    way = os.environ["WAY"]
    write = {"h5part": write_h5part, "mpiio": write_mpiio, "posix": write_posix, "bp5": write_bp5}[way]
    data = [values(number, 0, PARTS[RANK], PARTS[RANK + 1]) for number in range(len(ATTRIBUTES))]
    COMM.Barrier()
    begin = MPI.Wtime()
    write(data)
    COMM.Barrier()
    seconds = COMM.allreduce(MPI.Wtime() - begin, MPI.MAX)
    check(way)
    if RANK == 0:
        size = 8 * PARTICLES * len(ATTRIBUTES) * STEPS
        Path("figures.json").write_text(json.dumps({"bandwidth": size / seconds, "write_s": seconds}))


if __name__ == "__main__":
    main()
