"""Files of data (BP, HDF5, openPMD): found in a run, opened, and read step by step and box by box.

They are read through `workflow.stage`. The libraries that reading takes (numpy, adios2, h5py) are imported when a file
is opened.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workflow.data_files.reading_process import note_reading
from workflow.engines import BP_SUFFIXES, HDF5_SUFFIXES, engine_of_data
from workflow.errors import RunError, WfError
from workflow.formats.bp_index import deactivate, missing_part, read_index
from workflow.formats.step_files import newest_step_file, numbered_path, step_file
from workflow.installation import install_command

if TYPE_CHECKING:
    from workflow.stage import Array, Reader, Shape, Step

# As much of an array is in memory at a time.
BOX_BYTES = 32 * 2**20


class StepGone(RunError):  # noqa: N818, an event of the stream
    """The run that keeps a stream has removed this step while it was read."""


class VariableError(RunError):
    """A variable cannot be read, because of its type; the others of its file can."""


class VariableKind(NamedTuple):
    """NumPy's name of a variable's type (or `string`), and its shape; () where it is in `local` blocks without one."""

    type: str
    shape: Shape
    local: bool = False


def find_data(directory: Path) -> dict[str, Path]:
    """Relative path → path of all BP directories and HDF5 files below a directory, sorted; hidden ones are left out.

    A stream in one output per step is one of them: its directory.
    """
    from workflow.run.records.run_directory import ATTACHED, PLAN_FILE, leads_inside

    found: dict[str, Path] = {}
    # What was attached to a run is a run of its own.
    apart = {directory / ATTACHED} if (directory / PLAN_FILE).exists() else set()
    waiting = [directory]
    while waiting:
        for path in waiting.pop().iterdir():
            if path.name.startswith(".") or leads_inside(path, directory):
                continue
            if path.is_dir() and numbered_path(path) is not None:
                # By the name that the stream has in one output, with which it can be compared.
                found[f"{path.relative_to(directory).as_posix()}.bp"] = path
            elif is_data(path):
                found[path.relative_to(directory).as_posix()] = path
            elif path.is_dir() and not path.is_symlink() and path not in apart:
                waiting.append(path)
    # A link to other data of the run, which a program with names of its own needs, is no result.
    own = {path.resolve() for path in found.values() if not path.is_symlink()}
    return {name: path for name, path in sorted(found.items()) if not (path.is_symlink() and path.resolve() in own)}


def is_data(path: Path) -> bool:
    """A BP directory (whatever its name), one with an output per step, or an HDF5 file."""
    if path.is_dir():
        return (path / "md.idx").exists() or numbered_path(path) is not None
    return path.is_file() and path.suffix.lower() in (*HDF5_SUFFIXES, *BP_SUFFIXES)


def has_steps(path: Path) -> bool:
    """Whether there is more than nothing in a file, as far as its index shows: of HDF5, and of a stream in one output
    per step, that is not looked at.

    ADIOS2 (2.12.1) writes one empty step into a file that is closed without any.
    """
    index = read_index(path / "md.idx")
    if index is None or index.steps > 1:
        return index is not None or not (path / "md.idx").exists()
    return index.steps == 1 and any(each.stat().st_size for each in path.glob("data.*"))


class DataStep:
    """One step of a file. Errors while reading are RunErrors that name the file.

    `iteration`: its number in an openPMD series, else None. `number`: of the iteration, else of the step.
    """

    def __init__(self, step: Step, path: Path):
        import numpy as np

        self._step, self._path = step, path
        attributes = self.attributes()
        given = attributes.get("/data/snapshot", ()) if "/openPMD" in attributes else ()
        numbers = np.ravel(given)
        # Of a file without steps of ADIOS2 the attribute lists all iterations.
        is_one = numbers.size == 1 and numbers.dtype.kind in "iuf" and float(numbers[0]).is_integer()
        self.iteration = int(numbers[0]) if is_one else None
        self.number: int = step.index if self.iteration is None else self.iteration

    def kinds(self) -> dict[str, VariableKind]:
        """Its variables."""
        with _named(self._path):
            return {name: VariableKind(*info) for name, info in self._step.variables().items()}

    def read(self, name: str, start: Shape, count: Shape) -> Array:
        """One box of a variable; `()` for all of a scalar."""
        with _named(self._path):
            return self._step.read(name, start=start, count=count) if count else self._step.read(name)

    def read_blocks(self, name: str) -> list[Array]:
        """The blocks of an array without a global shape."""
        with _named(self._path):
            return [piece.values for piece in self._step.share(name) if piece.block is not None]

    def label(self, name: str) -> str:
        """What its attributes call a variable; "" where they do not."""
        with _named(self._path):
            label = self._step.label(name)
        return "" if label == name else label

    def unit(self, name: str) -> str:
        """The unit of a variable, or of the attribute `time` of an openPMD iteration; "" where none is known."""
        with _named(self._path):
            return self._step.unit(name)

    def attributes(self) -> dict[str, Any]:
        """The attributes known by now; those of a variable are called `variable/name`."""
        with _named(self._path):
            return self._step.attributes()


def boxes(shape: Shape, kind: str, limit: int = BOX_BYTES) -> Iterator[tuple[Shape, Shape]]:
    """Cut an array of that shape and type (NumPy's name) into boxes (start, count) of at most `limit` bytes, in order.

    One box for a scalar; none for an array without elements.
    """
    import numpy as np

    if 0 in shape:
        return
    row = np.dtype(kind).itemsize if kind in np.sctypeDict else 16
    axis = len(shape)
    # A box spans the axes after `axis`, `depth` elements of it, and one element of the axes before.
    while axis and row * shape[axis - 1] <= limit:
        axis -= 1
        row *= shape[axis]
    if not axis:
        yield (0,) * len(shape), shape
        return
    axis -= 1
    depth = max(1, limit // row)
    for index in product(*(range(length) for length in shape[:axis])):
        for first in range(0, shape[axis], depth):
            yield (
                (*index, first, *(0 for _ in shape[axis + 1 :])),
                (*(1 for _ in index), min(depth, shape[axis] - first), *shape[axis + 1 :]),
            )


@contextmanager
def open_data(path: Path) -> Iterator[Iterator[DataStep]]:
    """The steps of a file. Each is valid until the next one is asked for.

    Raises:
        RunError: the file cannot be read, breaks off, or was written meanwhile.
        WfError: a library that it takes is not installed.
    """
    try:
        from workflow.stage import open_reader

        with _named(path):
            _check_whole(path)
            if (numbered := numbered_path(path)) is not None:
                reader = open_reader(
                    path=numbered, engine=engine_of_data(Path(step_file(str(numbered), 0))), iterations=True
                )
            else:
                reader = open_reader(path=path, engine=engine_of_data(path), iterations=True)
    except ModuleNotFoundError as error:
        raise WfError(f"reading {path.name} needs {error.name}", install_command("laptop")) from error
    written = _last_change(path)
    try:
        with reader:
            yield _steps(reader, path)
    except RunError as error:
        if written != _last_change(path):
            raise _being_written(path) from error
        raise
    if written != _last_change(path):
        raise _being_written(path)


def _last_change(path: Path) -> tuple[int, int] | None:
    """When an HDF5 file was written last, and its size. It is read without a lock, which its program would die of."""
    with _named(path):
        return None if path.is_dir() else ((found := path.stat()).st_mtime_ns, found.st_size)


def _being_written(path: Path) -> RunError:
    return RunError(f"{path}: was written while it was read", "try it again, or when its program has ended")


@contextmanager
def follow_data(
    path: Path, events: Path, stream: str, first: int, before: int, behind_s: float
) -> Iterator[Iterator[DataStep]]:
    """The steps of a stream that a running run keeps, as they come: see `workflow.stage.follow`.

    Raises:
        RunError: the file cannot be read, or the supervisor of the run has died. StepGone: while a step is read.
    """
    from workflow.stage import follow

    with _named(path):
        reader = follow(
            path,
            events,
            stream,
            first=first,
            before=before,
            behind_s=behind_s,
            open_timeout_s=math.inf,
            iterations=True,
        )
    with reader:
        yield _steps(reader, path)


def _check_whole(path: Path) -> None:
    """Raises RunError for a BP file of which a part is missing: ADIOS2 would wait for it without limit, or see no step.

    Found are a cut index and a file of data that ends before its last step; not a cut within that step.
    """
    if not path.is_dir():
        return
    # Of a stream with an output per step the writer closed all but the newest.
    last = newest_step_file(path) or path
    if problem := missing_part(last):
        raise RunError(f"{last}: {problem}")


def _steps(reader: Reader, path: Path) -> Iterator[DataStep]:
    # Not around the `yield`: an error of the other file of the pair must not be attributed to this one.
    while True:
        with _named(path):
            step = next(reader, None)
        if step is None:
            return
        yield DataStep(step, path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    from workflow.stage import ContractError, StageError, StepRemoved

    note_reading(path)
    try:
        yield
    except StepRemoved as error:
        raise StepGone(str(error)) from error
    except ContractError as error:
        raise VariableError(f"{path}: {str(error).removeprefix(f'stream {path}: ')}") from error
    except (StageError, OSError, RuntimeError) as error:
        raise RunError(f"{path}: {str(error).removeprefix(f'stream {path}: ')}") from error
    except KeyError as error:
        raise RunError(f"{path}: has a variable of a type that cannot be read: {error}") from error


def is_open(path: Path) -> bool:
    """Whether a writer has this BP file open, or died with it open; False for HDF5, which says so when it is opened."""
    if not path.is_dir():
        return False
    index = read_index((newest_step_file(path) or path) / "md.idx")
    return index is not None and index.active


def as_far_as_it_goes(path: Path, scratch: Path) -> Path:
    """The whole steps of a BP file that its writer has left open, as a file of links in `scratch`.

    The file itself stays as it is, and readers do not wait for its writer.
    """
    linked = Path(tempfile.mkdtemp(dir=scratch)) / path.name
    shutil.copytree(path, linked, symlinks=True, copy_function=_link)
    index = (newest_step_file(linked) or linked) / "md.idx"
    content = index.read_bytes()
    index.unlink()
    index.write_bytes(content)
    if (whole := read_index(index)) is not None:
        os.truncate(index, whole.offset)
    deactivate(index)
    return linked


def _link(source: str, target: str) -> None:
    Path(target).symlink_to(Path(source).resolve())
