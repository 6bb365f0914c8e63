"""Stage programs for the tests of `workflow.stage`, and functions that start them as real processes.

Run as `python stage_programs.py ROLE`, with WF_STAGE set; each role is a function below.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

STEPS = 4
# `WF_MPI_PYTHON`: the Python of an environment whose ADIOS2 is built with MPI. The tests use it as well.
PYTHONS = {"here": sys.executable, "mpi": os.environ.get("WF_MPI_PYTHON", "")}
BUILDS = [name for name, python in PYTHONS.items() if python]
TIMEOUT_S = 60
SST = {"RendezvousReaderCount": "1", "QueueLimit": "2", "SpeculativePreloadMode": "Off"}
SUFFIX = {"BP5": ".bp", "HDF5": ".h5"}


def has_mpi(build: str) -> bool:
    """Whether the ranks of a stage read and write in parallel with this build of ADIOS2."""
    import adios2

    return build == "mpi" or bool(adios2.is_built_with_mpi)


def expected(step: int) -> dict[str, Any]:
    """The variables that `write_everything` writes in a step; rank 0 alone writes those that begin with `rank0_`."""
    import numpy as np

    atoms = 7 + 3 * step
    types = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
    data: dict[str, Any] = {f"of_{kind}": (np.arange(atoms) % 5 + step).astype(kind) for kind in types}
    for kind in ("complex64", "complex128"):
        data[f"of_{kind}"] = (np.arange(atoms) * (1 + 2j) + step).astype(kind)
    data["position"] = np.arange(atoms * 3, dtype=float).reshape(atoms, 3) * (step + 1)
    data["field"] = np.arange(9 * 5 * 3, dtype=float).reshape(9, 5, 3) + step
    data["none"] = np.empty((0, 2), np.int32)
    data["rank0_time"] = np.float64(0.5 * step)
    data["rank0_count"] = np.int64(step)
    data["rank0_z"] = np.complex128(1 - step * 1j)
    data["rank0_label"] = f"step {step} µ"
    data["rank0_box"] = np.array([[0.0, step], [1.0, 2.0]])
    return data


def write_everything() -> None:
    """Write blocks of every type, some of them empty, transposed, big-endian, or lent."""
    import numpy as np

    from workflow import stage

    rank, ranks = stage.rank(), stage.size()
    with stage.open_writer("data") as out:
        out.attribute("species", ["Cu"])
        out.attribute("names", ["a", "b", ""])
        out.attribute("unit", "Å", variable="position")
        out.attribute("numbers", np.arange(3, dtype=np.int16))
        for step in range(STEPS):
            out.attribute("step", step)
            with out.step():
                for name, whole in expected(step).items():
                    if name.startswith("rank0_"):
                        # Of scalars and strings, other ranks pass wrong values: only rank 0's value is written.
                        right = rank == 0 or np.ndim(whole) > 0
                        out.write(name, whole if right else "x" if isinstance(whole, str) else whole * 0)
                        continue
                    start, count = stage.block(len(whole), ranks, rank)
                    if name == "of_int32":  # all on the last rank
                        start, count = (0, len(whole)) if rank == ranks - 1 else (len(whole), 0)
                    if name == "field":
                        parts = stage.grid(whole.shape, ranks)
                        first, lengths = stage.block_of(whole.shape, parts, rank)
                        box = tuple(slice(f, f + n) for f, n in zip(first, lengths, strict=True))
                        out.write(name, np.asfortranarray(whole[box]), shape=whole.shape, start=first)
                        continue
                    part = whole[start : start + count]
                    if name == "of_float32":
                        part = part.astype(">f4")
                    first = (start,) + (0,) * (whole.ndim - 1)
                    out.write(name, part, shape=whole.shape, start=first, lend=name == "position")


def write_parts_without_a_shape() -> None:
    """Write arrays without a shape: the same on all ranks, on rank 0 alone, and one that differs in step 1."""
    import numpy as np

    from workflow import stage

    with stage.open_writer("data") as out:
        for step in range(2):
            with out.step():
                out.write("a", np.arange(3.0))
                if stage.rank() == 0:
                    out.write("summary", np.ones(2))
                out.write("field", np.full(4, float(step * stage.rank())))
                out.write("seconds", time.perf_counter())


def write_local_parts() -> None:
    """Rank 0 has no blocks in odd steps, and one of 3 numbers in even ones; rank 1 has 5 blocks of 2."""
    import numpy as np

    from workflow import stage

    with stage.open_writer("data") as out:
        for step in range(4):
            with out.step():
                mine = [np.ones(2)] * 5 if stage.rank() else [np.ones(3)] * (step % 2 == 0)
                out.write_local("parts", mine)
                out.write("shared", np.ones(stage.rank() + 1), shape=(3,), start=(stage.rank(),))


def read_everything() -> None:
    """Read every variable whole, in blocks, and several at once; compare with `expected`."""
    import numpy as np

    from workflow import stage

    rank, ranks = stage.rank(), stage.size()
    with stage.open_reader("data") as data:
        for step in data:
            wanted = expected(step.index)
            assert step.names() == sorted(wanted), step.names()
            assert "position" in step
            assert "positions" not in step
            for name, whole in wanted.items():
                got = step.read(name)
                kind = "string" if isinstance(whole, str) else str(whole.dtype)
                found = step.variables()[name]
                assert (found.type, found.shape) == (kind, np.shape(whole)), (name, found)
                assert np.array_equal(got, whole), (name, got, whole)
                assert isinstance(whole, str) or got.dtype == whole.dtype
                if np.ndim(whole):
                    start, count = stage.block(len(whole), ranks, ranks - 1 - rank)
                    rest = whole.shape[1:]
                    part = step.read(name, start=(start, *(0 for _ in rest)), count=(count, *rest))
                    assert np.array_equal(part, whole[start : start + count]), name
            start, count = stage.block(9, ranks, rank)
            many = step.read_many({"field": ((start, 1, 0), (count, 3, 2)), "rank0_label": None, "position": None})
            assert np.array_equal(many["field"], wanted["field"][start : start + count, 1:4, :2])
            assert str(many["rank0_label"]) == wanted["rank0_label"]
            assert np.array_equal(many["position"], wanted["position"])
            attributes = step.attributes()
            assert np.array_equal(attributes.pop("numbers"), [0, 1, 2])
            fixed = {"species": ["Cu"], "names": ["a", "b", ""], "position/unit": "Å"}
            # A file may have the last value of an attribute from the start; a stream has that of its step.
            latest = attributes.pop("step")
            assert attributes == fixed, attributes
            assert latest in (step.index, STEPS - 1), latest
            assert step.attributes("position") == {"unit": "Å"}
        assert data.steps == STEPS


def copy() -> None:
    """Copy the stream with all attributes, each rank its block."""
    from workflow import stage

    with stage.open_reader("data") as data, stage.open_writer("copy") as out:
        for step in data:
            step.copy_attributes_to(out)
            with out.step():
                for name, info in step.variables().items():
                    if not info.shape:
                        out.write(name, step.read(name))
                        continue
                    start, count = stage.block(info.shape[0])
                    rest = info.shape[1:]
                    first = (start, *(0 for _ in rest))
                    out.write(name, step.read(name, first, (count, *rest)), shape=info.shape, start=first)


def write_some() -> None:
    """Write steps of one array; the argument after the role names what happens before step 2."""
    import numpy as np

    from workflow import stage

    what = sys.argv[2]
    rank, ranks = stage.rank(), stage.size()
    with stage.open_writer("data") as out:
        for step in range(STEPS):
            if step == 2:
                misbehave(what, rank, ranks)
            with out.step():
                out.write("a", np.full(100, float(step)), shape=(100 * ranks,), start=(100 * rank,))
                if step == 2 and what == "raise inside":
                    raise ArithmeticError("inside a step")


def misbehave(what: str, rank: int, ranks: int) -> None:
    """Fail or wait in the way that `what` names."""
    if what in ("kill", "kill last", "terminate"):
        forget_shared_memory()
    if what == "kill" or (what == "kill last" and rank == ranks - 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    if what == "raise" or (what == "raise last" and rank == ranks - 1):
        raise ArithmeticError("between two steps")
    if what == "exit last" and rank == ranks - 1:
        sys.exit("not me")
    if what == "print connections":
        print_connections()
    while what == "wait" and not Path("go").exists():
        time.sleep(0.01)


def print_connections() -> None:
    """Print for each TCP connection of this process whether it sends at once."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            own = socket.socket(fileno=os.dup(int(entry.name)))
            if own.family == socket.AF_INET and own.type == socket.SOCK_STREAM:
                own.getpeername()  # fails for a socket that only listens
                print("at once" if own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) else "late", flush=True)


def forget_shared_memory() -> None:
    """Remove MPICH's shared memory files: they stay when a rank is killed, and no supervisor removes them here.

    All ranks have mapped them by now and keep the mapping.
    """
    if Path("/proc/self/maps").exists():
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "/dev/shm/mpich_shm_" in line:
                Path(line.split(maxsplit=5)[-1].removesuffix(" (deleted)")).unlink(missing_ok=True)


def read_some() -> None:
    """Print each step as it arrives."""
    from workflow import stage

    with stage.open_reader("data") as data:
        for step in data:
            start, count = stage.block(step.shape("a")[0])
            values = step.read("a", start=(start,), count=(count,))
            if stage.rank() == 0:
                print(f"step {step.index}: {values[0]}", flush=True)
            if step.index == 2:
                misbehave(sys.argv[2], stage.rank(), stage.size())
    if stage.rank() == 0:
        print("the end")


def write_alone() -> None:
    """Write two steps with adios2, without workflow.stage."""
    with _alone("w") as stream:
        for step in stream.steps(2):
            step.write("a", 1.0)
        print_connections()


def read_alone() -> None:
    """Read them."""
    with _alone("r") as stream:
        for step in stream.steps():
            step.read("a")
        print_connections()


def _alone(mode: str) -> Any:
    import adios2

    io = adios2.Adios().declare_io("data")
    io.set_engine("SST")
    io.set_parameters(SST)
    return adios2.Stream(io, "stream", mode)


def read_badly() -> None:
    """Make the mistake that the argument names, at the second step."""
    from workflow import stage

    what, last = sys.argv[2], stage.rank() == stage.size() - 1
    with stage.open_reader("data") as data:
        for step in data:
            if step.index == 1 and what == "differ":
                step.read("b" if last else "a") if "b" in step else step.read_many(["a"] if last else [])
            if step.index == 1 and what == "raise last" and last:
                mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
                print("\n".join(name for name in mapped if name.startswith("/dev/shm/")), flush=True)
                raise ArithmeticError("while reading")
            if what == "break":
                break


def end(side: str, engine: str, path: Path, **more: Any) -> dict[str, Any]:
    """One stream end as in stage.json. `path`: without suffix; `more`: other fields, which replace the defaults."""
    name = more.pop("port", "data")
    parameters = SST if engine == "SST" else {"BeginStepPollingFrequencySecs": "0.05"} if engine == "BP5" else {}
    return {
        "stream": path.name, "port": name, "side": side, "engine": engine, "parameters": parameters,
        "path": f"{path}{SUFFIX.get(engine, '')}", "open_timeout_s": 20, "step_timeout_s": 20, "io": name,
        "config": None, "variables": {},
    } | more  # fmt: skip


@contextmanager
def started(
    folder: Path, role: str, ends: list[dict[str, Any]], *, ranks: int = 1, build: str = "here", word: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A stage program that runs while the context lasts. Its metrics go to `ROLE.jsonl`."""
    name = role.replace("_", "-")
    settings: dict[str, Any] = {
        "stage": name, "component": None, "ranks": ranks, "run_dir": str(folder), "parameters": {},
        "stage_file_version": 2, "metrics": str(folder / f"{name}.jsonl"), "ends": ends,
    }  # fmt: skip
    # Not at the top: this file is also the program, run by Pythons that have only what a stage needs.
    from workflow.run.processes.process_reaper import remove_shared, shared_memory
    from workflow.run.processes.process_tree import descendants

    file = folder / f"{name}.json"
    file.write_text(json.dumps(settings))
    python = PYTHONS[build]
    launch = [str(Path(python).with_name("mpiexec")), "-n", str(ranks)] if ranks > 1 else []
    env = {**os.environ, "WF_STAGE": str(file), "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [*launch, python, __file__, role, word],
        env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        shared = set[str]()
        if process.poll() is None:
            shared = shared_memory(descendants(process.pid))
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        remove_shared(shared)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr). Raises TimeoutExpired when the program does not end."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def metrics(folder: Path, role: str) -> list[dict[str, Any]]:
    """The metrics lines of the stage."""
    lines = (folder / f"{role.replace('_', '-')}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    roles: dict[str, Callable[[], None]] = {
        function.__name__: function
        for function in (
            write_everything,
            read_everything,
            copy,
            write_some,
            write_parts_without_a_shape,
            write_local_parts,
            read_some,
            write_alone,
            read_alone,
            read_badly,
        )
    }
    if "small chunks" in sys.argv:
        from workflow.stage.adios import serial_gather

        serial_gather._CHUNK = 100  # instead of a GiB
    roles[sys.argv[1]]()
