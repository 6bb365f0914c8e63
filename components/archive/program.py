"""Write a stream to a file: every variable with its type, shape and values, every attribute, every step.

A BP5 or HDF5 file is the same as if the writer of the stream had written it; openPMD, H5Part, H5Block and VTKHDF are
HDF5 in the layouts that the tools of these communities read. The name of the file ends in `.partial` until the stream
has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# This file is started by path: make the modules beside it importable by their full names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.archive.h5part import H5Part
from components.archive.openpmd import OpenPMD
from components.archive.tree import Described, Layout, write_tree
from components.archive.vtkhdf import VtkHdf
from workflow import stage
from workflow.component_program import arguments
from workflow.formats.stage_file import APPEND_AFTER
from workflow.stage.hdf5 import LIBVER

ENGINES = {"bp5": "BP5", "hdf5": "HDF5"}
BY_SUFFIX = {
    ".bp": "bp5",
    ".bp5": "bp5",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".h5part": "h5part",
    ".h5block": "h5block",
    ".vtkhdf": "vtkhdf",
}
HDF5_SUFFIXES = (".h5", ".hdf5")


class Partial:
    """A context manager: gives a temporary path, which is renamed to `path` at the end unless an exception occurs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")

    def __enter__(self) -> Path:
        # Where the first attempt has found no file, one that is there now is that of an attempt that was ended after it
        # had finished the file. BP5 is appended to, so it is unfinished again; a file that is written anew stays until
        # another one takes its place. All ranks have asked before rank 0 goes on.
        if not stage.once("is_new", lambda: not self.path.exists()):
            raise SystemExit(f"archive: {self.path} already exists; remove it, or give another `path`")
        if stage.rank() == 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_dir():
                self.path.rename(self.partial)
        self._wait()
        return self.partial

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        self._wait()
        if stage.rank() == 0:
            self.partial.replace(self.path)

    def _wait(self) -> None:
        comm = stage.communicator()
        if comm is not None:
            comm.Barrier()


def format_of(path: Path, wanted: str) -> str:
    """The format: as given, or by the suffix. Raises SystemExit when format and suffix do not match."""
    by_suffix = BY_SUFFIX.get(path.suffix)
    if wanted == "auto":
        if by_suffix is None:
            known = ", ".join(BY_SUFFIX)
            raise SystemExit(f"archive: the suffix of {path.name} selects no format; use one of {known}")
        return by_suffix
    suffixes = [suffix for suffix, each in BY_SUFFIX.items() if each == wanted]
    if wanted not in ("bp5", "vtkhdf"):
        suffixes = list(dict.fromkeys([*suffixes, *HDF5_SUFFIXES]))
    if path.suffix not in suffixes:
        raise SystemExit(f"archive: format {wanted} needs a file that ends in {' or '.join(suffixes)}, not {path.name}")
    return wanted


def make_layout(wanted: str) -> Layout:
    """The layout of a format that stores HDF5 under its own names."""
    return OpenPMD() if wanted == "openpmd" else H5Part(fields=wanted == "h5block")


def chosen(step: stage.Step, wanted: list[str]) -> list[str]:
    """The variables of a step to write; those that it lacks are not written."""
    names = step.names()
    return [name for name in wanted if name in names] if wanted else names


class _Attributes:
    """Collects the attributes of a step with their types."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def attribute(self, name: str, value: Any) -> None:
        """One attribute: a list of strings, or an array, 0-dimensional for a single value."""
        self.found[name] = value if isinstance(value, list) else value[()]


def described(step: stage.Step, number: int, names: list[str]) -> Described:
    """The step without its arrays; it is number `number` of those that are written. Collective."""
    known = step.variables()
    taken = _Attributes()
    step.copy_attributes_to(taken)
    scalars: dict[str, Any] = dict(step.read_many([name for name in names if not known[name].shape]))
    scalars = {name: str(value) if known[name].type == "string" else value for name, value in scalars.items()}
    # /rankTable lists the hosts of an openPMD writer's ranks; it is no data.
    arrays = {name: known[name] for name in names if known[name].shape and name != "/rankTable"}
    return Described(step.index, number, arrays, scalars, taken.found)


def read_whole(step: stage.Step, name: str) -> stage.Array:
    """The whole array on rank 0, which writes it; an empty one on the other ranks. Collective."""
    shape = step.shape(name)
    return step.read(name, count=None if stage.rank() == 0 else (0,) * len(shape))


@contextmanager
def hdf5_file(path: Path) -> Iterator[Any]:
    """An open HDF5 file on rank 0, None on the others. Raises SystemExit where h5py is not installed."""
    try:
        import h5py
    except ModuleNotFoundError:
        raise SystemExit("archive: this format needs h5py: pip install h5py") from None
    if stage.rank() != 0:
        yield None
        return
    with h5py.File(path, "w", libver=LIBVER) as file:
        yield file


def described_steps(
    stream: stage.Reader, args: SimpleNamespace, always: Sequence[str] = ()
) -> Iterator[tuple[Described, Callable[[str], stage.Array]]]:
    """The steps that are written, with what reads an array of theirs. `always`: scalars that are wanted in any case."""
    for step in stream:
        if step.index % args.every:
            continue
        names = chosen(step, args.variables)
        wanted = [*names, *(name for name in always if name in step.names() and name not in names)]
        yield described(step, step.index // args.every, wanted), partial(read_whole, step)


def tell_left_out(left_out: Mapping[str, str], told: set[str], step: int) -> None:
    """Print once which variables the file cannot hold, and why; `told`: those of which that is known."""
    for name, why in left_out.items() if stage.rank() == 0 else ():
        if name not in told:
            told.add(name)
            since = f" from step {step} on" if step else ""
            print(f"note: {name} is left out{since}: it is {why}", flush=True)


def write_layout(path: Path, layout: Layout, args: SimpleNamespace) -> None:
    """Write the stream as HDF5 in one of the layouts."""
    with (
        Partial(path) as unfinished,
        hdf5_file(unfinished) as file,
        stage.open_reader("input", may_lack=args.variables) as stream,
    ):
        told = set[str]()
        for known, read in described_steps(stream, args):
            tell_left_out(layout.left_out(known), told, known.index)
            write_tree(file, layout.tree(known), read)


def write_vtkhdf(path: Path, args: SimpleNamespace) -> None:
    """Write the fields of the stream as a VTKHDF file. The time is wanted, whatever the variables."""
    with (
        Partial(path) as unfinished,
        hdf5_file(unfinished) as file,
        stage.open_reader("input", may_lack=args.variables) as stream,
    ):
        fields = VtkHdf(file, args.vtk_values == "cells")
        for known, read in described_steps(stream, args, always=("time",)):
            if known.index == 0:
                tell_left_out(fields.begin(known), set(), known.index)
            fields.add(known, read)


def write_unchanged(path: Path, engine: str, args: SimpleNamespace) -> None:
    """Write the stream as its writer would have written a file."""
    with Partial(path) as unfinished, stage.open_reader("input", may_lack=args.variables) as stream:
        # What an earlier attempt has written of the steps that are finished stays; earlier parts have their own files.
        done = (number for number in range(stream.before, stream.steps) if number not in stream.skipped)
        kept = sum(number % args.every == 0 for number in done)
        after = {APPEND_AFTER: str(kept)} if kept else None
        with stage.open_writer(path=unfinished, engine=engine, parameters=after) as file:
            for step in stream:
                if step.index % args.every == 0:
                    copied = stage.StepCopy.of(step, chosen(step, args.variables))
                    step.copy_attributes_to(file)
                    with file.step():
                        copied.write_to(file)


def main() -> None:
    """Copy the stream step by step."""
    args = arguments(__file__)
    path = Path(args.path)
    wanted = format_of(path, args.format)
    if wanted in ENGINES:
        write_unchanged(path, ENGINES[wanted], args)
    elif wanted == "vtkhdf":
        write_vtkhdf(path, args)
    else:
        write_layout(path, make_layout(wanted), args)


if __name__ == "__main__":
    main()
