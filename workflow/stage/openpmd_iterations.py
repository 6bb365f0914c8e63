"""A group-based openPMD series as a variable-based one: each iteration is a step, with its number in an attribute.

`/data/10/meshes/E/x` is `/data/meshes/E/x` in the step whose `/data/snapshot` is 10. One step of ADIOS2 may hold
several iterations, and an iteration of constant components alone has no variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from workflow.stage.stream_engines import ReadEngine, StepStatus
from workflow.stage.variables import Array, BlockTable, Info, Selection

_NUMBERED = re.compile(r"/data/(\d+)(/.*)")
_VERSION, _NUMBER, _ENCODING = "/openPMD", "/data/snapshot", "/iterationEncoding"
# Tables of openPMD-api: which groups were written in which step of ADIOS2.
_TABLES = ("__openPMD_groups", "__openPMD_internal")
_OF_A_STEP = (_NUMBER, "/data/time", "/data/dt")

Attributes = Mapping[str, Array | list[str]]


class WholeFile(NamedTuple):
    """The names of all variables of a file, and its attributes with their last values."""

    variables: Iterable[str]
    attributes: Attributes


class _Iteration(NamedTuple):
    """`names`: those of the file, by those that they have here. `number`: None for a step of another file."""

    number: int | None
    names: Mapping[str, str]


class IterationReadEngine:
    """Another engine's steps, cut into iterations; those of other files and encodings as they are.

    `read_whole`: opens the file once more, where it is complete. Attributes pile up in such a series: reading them at
    each step would take time that grows with the square of the steps. `keeps_last`: of an attribute the file has only
    the last value, so that number and time of a step are unknown.
    """

    def __init__(
        self, engine: ReadEngine, read_whole: Callable[[], WholeFile] | None = None, keeps_last: bool = False
    ) -> None:
        self._engine, self._read_whole, self._keeps_last = engine, read_whole, keeps_last
        self._waiting: Iterator[_Iteration] | None = None
        self._next: list[_Iteration] = []
        self._now = _Iteration(None, {})
        self._variables: Mapping[str, Info] = {}
        self._is_grouped: bool | None = None  # not known before the first step
        self._general: Attributes = {}
        self._of: dict[int, dict[str, Array | list[str]]] = {}
        self._constant: list[int] = []  # iterations without a variable that did not come yet
        self._is_inside = False  # a step of the other engine

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`."""
        if not self._next:
            status = self._engine.begin(timeout_s)
            if status is StepStatus.READY:
                self._is_inside = True
                self._take_step()
            elif status is StepStatus.ENDED and self._constant:
                self._next = [_Iteration(number, {}) for number in self._constant]
                self._constant = []
            else:
                return status
        self._now = self._next.pop(0)
        return StepStatus.READY

    def end(self) -> int | None:
        """See `ReadEngine`."""
        if self._next or not self._is_inside:
            return 0
        self._is_inside = False
        return self._engine.end()

    def bytes_of_all(self) -> list[int] | None:
        """See `ReadEngine`."""
        return self._engine.bytes_of_all()

    def close(self) -> None:
        """See `ReadEngine`."""
        if self._is_inside:
            self._engine.end()
        self._engine.close()

    def abandon(self) -> None:
        """See `ReadEngine`."""
        self._engine.abandon()

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`."""
        return {name: self._variables[own] for name, own in self._now.names.items()}

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        return self._variables[self._now.names[name]] if name in self._now.names else None

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`."""
        found = self._engine.blocks([self._now.names[name] for name in names])
        return {name: found[own] for name in names if (own := self._now.names[name]) in found}

    def attributes(self) -> Attributes:
        """See `ReadEngine`."""
        if self._now.number is None:
            found = self._engine.attributes()
            if not (self._keeps_last and _VERSION in found):
                return found
            return {name: value for name, value in found.items() if name not in _OF_A_STEP}
        if self._read_whole is None:
            self._take_attributes(self._engine.attributes())
        number = {_NUMBER: np.array(self._now.number, np.uint64), _ENCODING: np.array("variableBased")}
        return {**self._general, **self._of.get(self._now.number, {}), **number}

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`."""
        return self._engine.get([each._replace(name=self._now.names[each.name]) for each in wanted])

    def _take_step(self) -> None:
        self._variables = self._engine.variables()
        if self._is_grouped is None:
            self._is_grouped = self._find_out()
        found: dict[int, dict[str, str]] = {}
        rest: dict[str, str] = {}
        for name in self._variables:
            numbered = _NUMBERED.fullmatch(name) if self._is_grouped else None
            if numbered is None:
                rest[name] = name
            else:
                found.setdefault(int(numbered[1]), {})[f"/data{numbered[2]}"] = name
        if not self._is_grouped:
            self._next = [_Iteration(None, rest)]
            return
        before = [number for number in self._constant if number < max(found)] if found else self._constant[:1]
        self._constant = [number for number in self._constant if number not in before]
        found |= {number: {} for number in before}
        if not found:  # nothing but what belongs to no iteration
            self._next = [_Iteration(None, rest)]
            return
        # What belongs to no iteration comes with the first one.
        found[min(found)] |= rest
        self._next = [_Iteration(number, found[number]) for number in sorted(found)]

    def _find_out(self) -> bool:
        """Whether the names have numbers of iterations; then what is known of all steps."""
        first = self._engine.attributes()
        if _VERSION not in first or not any(map(_NUMBERED.fullmatch, (*self._variables, *first))):
            return False
        if self._read_whole is not None:
            whole = self._read_whole()
            self._take_attributes(whole.attributes)
            written = {int(match[1]) for name in whole.variables if (match := _NUMBERED.fullmatch(name))}
            self._constant = sorted(self._of.keys() - written)
        return True

    def _take_attributes(self, found: Attributes) -> None:
        self._general, self._of = {}, {}
        for name, value in found.items():
            if name.startswith(_TABLES):
                continue
            if numbered := _NUMBERED.fullmatch(name):
                self._of.setdefault(int(numbered[1]), {})[f"/data{numbered[2]}"] = value
            else:
                self._general[name] = value
