"""Copying steps: every variable stays what it is, with its type, its shape and its values.

| in the step | in its copy |
|---|---|
| a scalar, a string | the same |
| a global array | the same; elements that no rank has written are zeros |
| a joined array, values of single ranks | a global array, as which ADIOS2 shows them to every reader |
| an array in local blocks | the same blocks, in the same order, those without elements too |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from workflow.stage.api.step import Piece, Step
from workflow.stage.api.writer import Writer
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
        return cls(step.shares(chosen), chosen)

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
            info = self.known[name]
            try:
                if info.local:
                    blocks = [piece.values for piece in pieces if piece.block is not None]
                    out.write_local(name, blocks, lend=True)
                    continue
                for piece in pieces:
                    start = piece.start if info.shape else None
                    out.write(name, piece.values, shape=info.shape or None, start=start, lend=True)
            except TypeError as error:
                raise ContractError(f"stream {out.name}: step {out.steps}: {error}") from error
