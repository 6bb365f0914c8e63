"""Compression of a writer's variables: their operators, and the accuracy with which they arrive.

ADIOS2 aborts the process for an operator that it was built without, so its library is examined first.

Readers compare what arrives with some original values that are sent with each step, only for variables with an
operator. Every rank takes samples of its block (all values of a small one) at positions that depend on the variable's
name, the step and the rank. The samples are one string variable, because ADIOS2 keeps single values in the metadata:
readers need no connection to every writer rank for them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow.distribution.boxes import Shape, volume
from workflow.formats.stage_file import StreamEnd
from workflow.operators import CRASH_ON_EMPTY, EVERY, IN_WORDS, LOSSY, built_into, refusal
from workflow.stage.stage_errors import StageError
from workflow.stage.variables import SAMPLES, Array, BlockData, Selection


class VariableOperator(NamedTuple):
    """One variable's operator: ADIOS2's name and parameters, and the largest absolute error allowed (0: lossless)."""

    type: str
    parameters: Mapping[str, str]
    bound: float


class Operators:
    """The operators of one stream end that writes, by variable."""

    def __init__(self, end: StreamEnd) -> None:
        self._stream = end.stream
        self._wanted = {name: _operator(given) for name, given in end.operators.items()}

    def of(self, block: BlockData) -> VariableOperator | None:
        """The operator of this variable; None where it is not compressed.

        Raises StageError for a variable that the pipeline names and that its operator cannot compress.
        """
        own, dimensions = self._wanted.get(block.name), len(block.shape)
        if own is not None and (why := refusal(own.type, block.type, dimensions)):
            raise StageError(f"{own.type} cannot compress {block.name}: {why}; change `output.compression`")
        every = self._wanted.get(EVERY)
        return own if own is not None or every is None or refusal(every.type, block.type, dimensions) else every

    def check_block(self, operator: VariableOperator, block: BlockData) -> None:
        """Raise StageError for an array without elements, where its operator would end the process."""
        if operator.type in CRASH_ON_EMPTY and not volume(block.shape):
            raise StageError(
                f"{block.name} has no elements in this step, and {operator.type} cannot compress empty arrays; "
                "use blosc for it"
            )

    def check_built(self) -> None:
        """Raise StageError unless the ADIOS2 library of this process was built with all of these operators."""
        built = _built()
        for each in self._wanted.values():
            if built is not None and each.type not in built:
                has = f"it has {', '.join(built)}" if built else "it has no operators"
                raise StageError(
                    f"stream {self._stream}: this ADIOS2 is built without {each.type} ({has}); `make adios2-mpi` "
                    f"builds one with {IN_WORDS}, then run `.venv-mpi/bin/wf`"
                )


def _operator(given: Mapping[str, Any]) -> VariableOperator:
    return VariableOperator(str(given["type"]), dict(given.get("parameters", {})), float(given.get("bound", 0.0)))


@lru_cache(maxsize=1)
def _built() -> list[str] | None:
    """The operators of the ADIOS2 library that this process has loaded; None when that is unknown."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        place = Path(line.split(maxsplit=5)[-1])
        if place.name.startswith("libadios2_core.so"):
            return built_into(place)
    return None


# Samples per variable and step: of all ranks together at most, and of each rank at least.
_MOST, _LEAST = 1024, 4


class Sampler:
    """The writer's side: takes the samples of a step and gathers them on rank 0."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._rank = 0 if comm is None else int(comm.Get_rank())
        self._most = max(_LEAST, _MOST // (1 if comm is None else comm.Get_size()))
        self._taken: dict[str, tuple[VariableOperator, str, Array, Array]] = {}
        self.names = set[str]()  # on rank 0: all variables that were sampled

    def take(self, block: BlockData, operator: VariableOperator | None, step: int) -> None:
        """Copy some values of this rank's block, unless it has no operator.

        Of several blocks of a variable in one step, only the first is sampled.
        """
        values = block.values
        if operator is None or block.name in self._taken or not values.size:
            return
        if values.size <= self._most:
            local = np.arange(values.size)
        else:
            random = np.random.default_rng([zlib.crc32(block.name.encode()), step, self._rank])
            local = random.integers(0, values.size, self._most)
            local[:2] = 0, values.size - 1
        inside = np.unravel_index(local, values.shape)
        place = [axis + first for axis, first in zip(inside, block.start, strict=True)]
        at = np.ravel_multi_index(place, block.shape).astype(np.int64)
        self._taken[block.name] = operator, block.type, at, values.reshape(-1)[local]

    def block(self) -> BlockData | None:
        """The samples of all ranks as a variable to write; None on other ranks than 0. Collective."""
        taken, self._taken = self._taken, {}
        parts = [taken] if self._comm is None else self._comm.gather(taken)
        if parts is None:
            return None
        samples: dict[str, Any] = {}
        for name in dict.fromkeys(name for part in parts for name in part):
            own = [part[name] for part in parts if name in part]
            operator, kind = own[0][0], own[0][1]
            samples[name] = {
                "operator": operator.type, "bound": operator.bound, "type": kind,
                "at": _text(np.concatenate([each[2] for each in own])),
                "was": _text(np.concatenate([each[3] for each in own])),
            }  # fmt: skip
        self.names.update(samples)
        return BlockData(SAMPLES, "string", np.array(json.dumps(samples)), (), ())


class OriginalValues(NamedTuple):
    """Values before compression, and their indices in the flattened global array."""

    operator: str
    bound: float
    at: NDArray[np.int64]
    was: Array


class Accuracy(NamedTuple):
    """The accuracy of one variable: largest absolute error, number of values compared, number of steps."""

    operator: str
    bound: float
    largest: float
    compared: int
    steps: int = 0

    def combined(self, other: Accuracy) -> Accuracy:
        """Both together; `steps` is not changed."""
        return self._replace(largest=max(self.largest, other.largest), compared=self.compared + other.compared)

    @property
    def exceeded(self) -> bool:
        """Whether the error is larger than the bound."""
        return self.largest > self.bound


class Comparer:
    """The reader's side: compares what this rank reads with the samples, and adds up over steps and ranks."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._samples: dict[str, OriginalValues] = {}
        self._found: dict[str, Accuracy] = {}
        self.total: dict[str, Accuracy] = {}

    def begin(self, text: str) -> None:
        """Take the samples of a step, as `Sampler.block` wrote them."""
        self._samples = {
            name: OriginalValues(
                each["operator"], float(each["bound"]), np.frombuffer(base64.b64decode(each["at"]), np.int64),
                np.frombuffer(base64.b64decode(each["was"]), each["type"]),
            )
            for name, each in json.loads(text).items()
        }  # fmt: skip

    def compare(self, wanted: Sequence[Selection], arrays: Sequence[Array], shapes: Mapping[str, Shape]) -> None:
        """Compare these boxes with the samples that lie inside them. `shapes`: global shapes of the variables."""
        for box, array in zip(wanted, arrays, strict=True):
            sample = self._samples.get(box.name)
            if sample is None:
                continue
            place = np.unravel_index(sample.at, shapes[box.name])
            inside = np.ones(len(sample.at), bool)
            for axis, first, length in zip(place, box.start, box.extent, strict=True):
                inside &= (axis >= first) & (axis < first + length)
            here = tuple(axis[inside] - first for axis, first in zip(place, box.start, strict=True))
            error = largest_error(array[here], sample.was[inside], sample.operator in LOSSY)
            one = Accuracy(sample.operator, sample.bound, error, int(inside.sum()))
            self._found[box.name] = one.combined(self._found.get(box.name, one._replace(compared=0)))

    def end(self) -> list[str]:
        """Add up the step over all ranks. Returns the variables whose error exceeds their bound. Collective."""
        parts = [self._found] if self._comm is None else self._comm.allgather(self._found)
        step: dict[str, Accuracy] = {}
        for part in parts:
            for name, each in part.items():
                step[name] = each.combined(step[name]) if name in step else each
        for name, each in step.items():
            before = self.total.get(name, each._replace(compared=0))
            self.total[name] = before.combined(each)._replace(steps=before.steps + 1)
        self._found, self._samples = {}, {}
        return [name for name, each in self.total.items() if each.exceeded]


def largest_error(got: Array, was: Array, lossy: bool) -> float:
    """The largest absolute difference of two arrays of the same shape; 0 without elements.

    NaN must stay NaN, else the error is infinite. Lossless operators must keep every bit: where bits differ and the
    values compare equal, the error is infinite too.
    """
    if not got.size:
        return 0.0
    if not lossy:
        differ = np.any(_bytes(got) != _bytes(was), axis=1)
        if not differ.any():
            return 0.0
        got, was = got[differ], was[differ]
    if got.dtype.kind == "c":
        found = max(largest_error(got.real, was.real, True), largest_error(got.imag, was.imag, True))
    else:
        with np.errstate(invalid="ignore"):
            error = np.abs(got.astype(np.float64) - was.astype(np.float64))
        same = got == was
        error[same | (np.isnan(got) & np.isnan(was)) if got.dtype.kind == "f" else same] = 0.0
        found = float(np.nan_to_num(error, nan=np.inf, posinf=np.inf).max())
    return found if lossy or found else np.inf


def _bytes(array: Array) -> NDArray[np.uint8]:
    """A row of bytes for each value."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(array.size, array.dtype.itemsize)


def _text(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
