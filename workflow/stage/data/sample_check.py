"""Is what arrives what was written? Some original values travel with each step, and readers compare.

Only for variables with an operator. Every rank takes values of its block, all of a small one, at places that follow
from the variable's name, the step and the rank. They travel as text in one variable of their own, because ADIOS2 keeps
single values in the metadata: readers need no connection to every writer for them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow.operators import LOSSY
from workflow.stage.data.compression_operators import Operator
from workflow.stage.data.variables import Array, Block, Selection, Shape
from workflow.stage.stage_errors import StageError

NAME = "wf.samples"
# Of all ranks together, and of each rank at least.
_MOST, _LEAST = 1024, 4


class BoundBroken(StageError):  # noqa: N818, as its relatives
    """What arrived differs by more than the pipeline allows."""

    agreed = True


class Sampler:
    """The writing side: takes the samples of a step, and gives them to rank 0."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._rank = 0 if comm is None else int(comm.Get_rank())
        self._most = max(_LEAST, _MOST // (1 if comm is None else comm.Get_size()))
        self._taken: dict[str, tuple[Operator, str, Array, Array]] = {}
        self.names = set[str]()  # on rank 0: all variables of which samples were written

    def take(self, block: Block, operator: Operator, step: int) -> None:
        """Copy some values of this rank's block; of several blocks of one variable, of the first."""
        values = block.values
        if block.name in self._taken or not values.size:
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

    def block(self) -> Block | None:
        """The samples of all ranks, on rank 0, ready to be written. Collective."""
        taken, self._taken = self._taken, {}
        parts = [taken] if self._comm is None else self._comm.gather(taken)
        if parts is None:
            return None
        told: dict[str, Any] = {}
        for name in dict.fromkeys(name for part in parts for name in part):
            own = [part[name] for part in parts if name in part]
            operator, kind = own[0][0], own[0][1]
            told[name] = {
                "operator": operator.type, "bound": operator.bound, "type": kind,
                "at": _text(np.concatenate([each[2] for each in own])),
                "was": _text(np.concatenate([each[3] for each in own])),
            }  # fmt: skip
        self.names.update(told)
        return Block(NAME, "string", np.array(json.dumps(told)), (), ())


class Sample(NamedTuple):
    """Values as they were before the operator, and where in the flattened array."""

    operator: str
    bound: float
    at: NDArray[np.int64]
    was: Array


class Accuracy(NamedTuple):
    """What was found for one variable: the largest error of so many values, in so many steps."""

    operator: str
    bound: float
    largest: float
    compared: int
    steps: int = 0

    def with_(self, other: Accuracy) -> Accuracy:
        """Both together, `steps` apart."""
        return self._replace(largest=max(self.largest, other.largest), compared=self.compared + other.compared)

    @property
    def broken(self) -> bool:
        """Whether more was lost than allowed."""
        return self.largest > self.bound


class Comparer:
    """The reading side: compares what this rank reads with the samples, and sums up over steps and ranks."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._samples: dict[str, Sample] = {}
        self._found: dict[str, Accuracy] = {}
        self.total: dict[str, Accuracy] = {}

    def begin(self, text: str) -> None:
        """The samples of a step."""
        self._samples = {
            name: Sample(
                each["operator"], float(each["bound"]), np.frombuffer(base64.b64decode(each["at"]), np.int64),
                np.frombuffer(base64.b64decode(each["was"]), each["type"]),
            )
            for name, each in json.loads(text).items()
        }  # fmt: skip

    def compare(self, wanted: Sequence[Selection], arrays: Sequence[Array], shapes: Mapping[str, Shape]) -> None:
        """Compare these boxes with the samples that lie in them. `shapes`: of the whole variables."""
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
            self._found[box.name] = one.with_(self._found.get(box.name, one._replace(compared=0)))

    def end(self) -> list[str]:
        """Sum up the step over all ranks. Returns the names of variables whose bound is broken. Collective."""
        parts = [self._found] if self._comm is None else self._comm.allgather(self._found)
        step: dict[str, Accuracy] = {}
        for part in parts:
            for name, each in part.items():
                step[name] = each.with_(step[name]) if name in step else each
        for name, each in step.items():
            before = self.total.get(name, each._replace(compared=0))
            self.total[name] = before.with_(each)._replace(steps=before.steps + 1)
        self._found, self._samples = {}, {}
        return [name for name, each in self.total.items() if each.broken]


def largest_error(got: Array, was: Array, lossy: bool) -> float:
    """The largest difference of two equal-sized arrays; 0 without elements.

    What is no number must be none after the operator too, else the error is infinite. Lossless operators must keep
    every bit: where a bit differs and no value does, the error is infinite too.
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
