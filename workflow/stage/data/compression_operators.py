"""The compression operators of a writer's variables.

ADIOS2 aborts the process for an operator that it was built without, so its library is examined first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from workflow.distribution import volume
from workflow.formats.stage_file import StreamEnd
from workflow.operators import EVERY, built_into, refusal
from workflow.stage.data.variables import BlockData
from workflow.stage.stage_errors import StageError


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
        """Raise StageError for zfp and an array without elements: ADIOS2 (2.12.1) would crash with a bus error."""
        if operator.type == "zfp" and not volume(block.shape):
            raise StageError(
                f"{block.name} has no elements in this step, and zfp cannot compress empty arrays; use blosc for it"
            )

    def check_built(self) -> None:
        """Raise StageError unless the ADIOS2 library of this process was built with all of these operators."""
        built = _built()
        for each in self._wanted.values():
            if built is not None and each.type not in built:
                has = f"it has {', '.join(built)}" if built else "it has no operators"
                raise StageError(
                    f"stream {self._stream}: this ADIOS2 is built without {each.type} ({has}); `make adios2-mpi` "
                    "builds one with blosc, bzip2 and zfp, then run `.venv-mpi/bin/wf`"
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
