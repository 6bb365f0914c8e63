"""Copying steps: every variable stays what it is, with its type, its shape and its values.

| in the step | in its copy |
|---|---|
| a scalar, a string | the same |
| a global array | the same; elements that no rank has written are zeros |
| a joined array, values of single ranks | a global array, as which ADIOS2 shows them to every reader |
| an array in local blocks | the same blocks, in the same order, those without elements too |
| of HDF5: an array of strings | an attribute, a list of strings |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from workflow.stage.api.step import Piece, Step
from workflow.stage.api.writer import Writer
from workflow.stage.hdf5_values import EMPTY, NO_STREAM_TYPES
from workflow.stage.stage_errors import ContractError
from workflow.stage.variables import Info


class StepCopy(NamedTuple):
    """This rank's share of a step in memory: the pieces of every variable, and its type and shape."""

    pieces: Mapping[str, list[Piece]]
    known: Mapping[str, Info]

    @classmethod
    def of(cls, step: Step, names: Iterable[str] | None = None) -> StepCopy:
        """Read this rank's share of these variables, by default of all. Call it on all ranks.

        Raises what `Step.shares` raises.
        """
        known = step.variables()
        chosen = known if names is None else {name: known[name] for name in names}
        lists = {name: info.shape for name, info in chosen.items() if _is_list(info)}
        pieces = step.shares([name for name, info in chosen.items() if not _is_list(info) and info.type != EMPTY])
        whole = {name: [Piece(step.read(name), (0,) * len(shape))] for name, shape in lists.items()}
        return cls(pieces | whole | {name: [] for name, info in chosen.items() if info.type == EMPTY}, chosen)

    def only(self, names: Iterable[str]) -> StepCopy:
        """These variables of it."""
        wanted = sorted(names)
        return StepCopy({name: self.pieces[name] for name in wanted}, {name: self.known[name] for name in wanted})

    def write_to(self, out: Writer) -> None:
        """Write it inside a step. The arrays must not change before that step ends. Call it on all ranks.

        Raises what `Writer.write` raises; ContractError, with the name of the variable and the step, for what the file
        or stream cannot have.
        """
        for name, pieces in self.pieces.items():
            try:
                _write(out, name, self.known[name], pieces)
            except TypeError as error:
                raise ContractError(f"stream {out.name}: step {out.steps}: {error}") from error


def _write(out: Writer, name: str, info: Info, pieces: list[Piece]) -> None:
    if info.type == EMPTY:
        out.tell_once(name, f"{name} is left out: it is a dataset without a dataspace")
    elif info.type in NO_STREAM_TYPES:
        raise TypeError(f"{name} is of HDF5's type {info.type}, which no stream has")
    elif _is_list(info):
        out.tell_once(name, f"{name} is an array of strings, which no stream has: it becomes an attribute")
        out.attribute(name, np.ravel(pieces[0].values).tolist())
    elif info.local:
        out.write_local(name, [piece.values for piece in pieces if piece.block is not None], lend=True)
    else:
        for piece in pieces:
            start = piece.start if info.shape else None
            out.write(name, piece.values, shape=info.shape or None, start=start, lend=True)


def _is_list(info: Info) -> bool:
    """Whether a variable is an array of strings, of which only HDF5 has some."""
    return info.type == "string" and bool(info.shape)
