"""Keep a stream in a file: every variable with its type, shape and values, every attribute, every step.

As BP5 or HDF5 the file looks as if the writer of the stream had written it there; openPMD, H5Part and H5Block are
HDF5 in the layouts that the tools of their communities read. While it is written its name ends in `.partial`; it
gets its own name when the stream has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Started by path: the modules beside this file are known under the names that everything else uses too.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.archive.h5part import H5Part
from components.archive.openpmd import OpenPMD
from components.archive.tree import Described, Layout, write_tree
from workflow import stage
from workflow.component_program import arguments

ENGINES = {"bp5": "BP5", "hdf5": "HDF5"}
BY_SUFFIX = {".bp": "bp5", ".bp5": "bp5", ".h5": "hdf5", ".hdf5": "hdf5", ".h5part": "h5part", ".h5block": "h5block"}
HDF5_SUFFIXES = (".h5", ".hdf5")


class Partial:
    """A context with the path to write to, which becomes the asked-for path unless an exception leaves it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")

    def __enter__(self) -> Path:
        exists = self.path.exists()
        self._wait()  # no rank must look when rank 0 has gone on already
        if exists:
            raise SystemExit(f"archive: {self.path} exists already; remove it or give another path")
        if stage.rank() == 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._wait()
        return self.partial

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        self._wait()
        if stage.rank() == 0:
            self.partial.rename(self.path)

    def _wait(self) -> None:
        comm = stage.communicator()
        if comm is not None:
            comm.Barrier()


def format_of(path: Path, wanted: str) -> str:
    """The format asked for, or that of the suffix. Raises SystemExit when they do not go together."""
    said = BY_SUFFIX.get(path.suffix)
    if wanted == "auto":
        if said is None:
            known = ", ".join(BY_SUFFIX)
            raise SystemExit(f"archive: {path.name} is in no format that is known; its suffix may be {known}")
        return said
    suffixes = [suffix for suffix, each in BY_SUFFIX.items() if each == wanted]
    if wanted != "bp5":
        suffixes = list(dict.fromkeys([*suffixes, *HDF5_SUFFIXES]))
    if path.suffix not in suffixes:
        raise SystemExit(f"archive: format {wanted} goes into a file that ends in {' or '.join(suffixes)}: {path.name}")
    return wanted


def make_layout(wanted: str) -> Layout:
    """The layout of a format that is HDF5 with names of its own."""
    return OpenPMD() if wanted == "openpmd" else H5Part(fields=wanted == "h5block")


def chosen(names: list[str], wanted: list[str]) -> list[str]:
    """The variables to keep. Raises SystemExit when the step has not all that are wanted."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise SystemExit(f"archive: the stream has no variable {', '.join(missing)}; it has {', '.join(names)}")
    return wanted or names


def copy_step(step: stage.Step, names: list[str], file: stage.Writer) -> None:
    """Each rank copies its share of every variable, box by box."""
    pieces = step.shares(names)
    step.copy_attributes_to(file)
    with file.step():
        for name in names:
            shape = step.shape(name)
            for piece in pieces[name]:
                start = piece.start if shape else None
                file.write(name, piece.values, shape=shape or None, start=start, lend=True)


class _Attributes:
    """Takes the attributes of a step, types kept."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def attribute(self, name: str, value: Any) -> None:
        """One attribute: a list of strings, or an array, 0-dimensional for a single value."""
        self.found[name] = value if isinstance(value, list) else value[()]


def described(step: stage.Step, number: int, names: list[str]) -> Described:
    """A step, the `number`-th that is kept, without its arrays. Collective."""
    known = step.variables()
    taken = _Attributes()
    step.copy_attributes_to(taken)
    scalars: dict[str, Any] = dict(step.read_many([name for name in names if not known[name].shape]))
    scalars = {name: str(value) if known[name].type == "string" else value for name, value in scalars.items()}
    # The hosts of an openPMD writer's ranks are for its readers, not data.
    arrays = {name: known[name] for name in names if known[name].shape and name != "/rankTable"}
    return Described(step.index, number, arrays, scalars, taken.found)


def read_whole(step: stage.Step, name: str) -> stage.Array:
    """All of an array on rank 0, which writes it; nothing of it on the other ranks. Collective."""
    shape = step.shape(name)
    return step.read(name, count=None if stage.rank() == 0 else (0,) * len(shape))


@contextmanager
def hdf5_file(path: Path) -> Iterator[Any]:
    """An HDF5 file on rank 0, None on the others. Raises SystemExit where h5py is not installed."""
    try:
        import h5py
    except ModuleNotFoundError:
        raise SystemExit("archive: HDF5 files need h5py here (pip install h5py)") from None
    if stage.rank() != 0:
        yield None
        return
    with h5py.File(path, "w") as file:
        yield file


def keep_laid_out(path: Path, layout: Layout, args: SimpleNamespace) -> None:
    """Write the stream as HDF5 in one of the layouts; what has no place in it is told once."""
    with Partial(path) as partial, hdf5_file(partial) as file, stage.open_reader("input") as stream:
        for step in stream:
            if step.index % args.every:
                continue
            known = described(step, step.index // args.every, chosen(step.names(), args.variables))
            if step.index == 0 and stage.rank() == 0:
                for name, why in layout.left_out(known).items():
                    print(f"archive: {name} is left out: it is {why}", flush=True)
            write_tree(file, layout.tree(known), lambda name, step=step: read_whole(step, name))  # type: ignore[misc]


def keep_as_it_is(path: Path, engine: str, args: SimpleNamespace) -> None:
    """Write the stream as its writer would have."""
    with (
        Partial(path) as partial,
        stage.open_reader("input") as stream,
        stage.open_writer(path=partial, engine=engine) as file,
    ):
        for step in stream:
            if step.index % args.every == 0:
                copy_step(step, chosen(step.names(), args.variables), file)


def main() -> None:
    """Copy the stream step by step."""
    args = arguments(__file__)
    path = Path(args.path)
    wanted = format_of(path, args.format)
    if wanted in ENGINES:
        keep_as_it_is(path, ENGINES[wanted], args)
    else:
        keep_laid_out(path, make_layout(wanted), args)


if __name__ == "__main__":
    main()
