"""What a writer's variables are compressed with. ADIOS2 aborts for an operator it lacks: its library is asked first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from workflow.formats.stage_file import StreamEnd
from workflow.operators import EVERY, built_into, refusal
from workflow.stage.data.variables import Block, product
from workflow.stage.stage_errors import StageError


class Operator(NamedTuple):
    """ADIOS2's name and parameters of an operator, and the largest error that may arrive."""

    type: str
    parameters: Mapping[str, str]
    bound: float


class Operators:
    """The operators of one writing end, by variable."""

    def __init__(self, end: StreamEnd) -> None:
        self._stream = end.stream
        self._wanted = {name: _operator(asked) for name, asked in end.operators.items()}

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def of(self, block: Block) -> Operator | None:
        """The operator of this variable; None where it is written as it is.

        Raises StageError for a variable named in the pipeline that its operator cannot do.
        """
        if not self._wanted:
            return None
        own, dimensions = self._wanted.get(block.name), len(block.shape)
        if own is not None and (why := refusal(own.type, block.type, dimensions)):
            raise StageError(f"{own.type} cannot compress {block.name}: {why}; change `output.compression`")
        every = self._wanted.get(EVERY)
        return own if own is not None or every is None or refusal(every.type, block.type, dimensions) else every

    def check_block(self, operator: Operator, block: Block) -> None:
        """Raise StageError for an array of no elements, which zfp (in ADIOS2 2.12.1) dies of."""
        if operator.type == "zfp" and not product(block.shape):
            raise StageError(
                f"{block.name} has no elements in this step, and zfp cannot take that; compress it with blosc"
            )

    def check_built(self) -> None:
        """Raise StageError unless the ADIOS2 of this process has all of them. None is asked where none is wanted."""
        built = _built() if self._wanted else None
        for each in self._wanted.values():
            if built is not None and each.type not in built:
                has = f"it has {', '.join(built)}" if built else "it has none"
                raise StageError(
                    f"stream {self._stream}: this ADIOS2 is built without {each.type}: {has}; `make adios2-mpi` builds "
                    "one with blosc, bzip2 and zfp, then run `.venv-mpi/bin/wf`"
                )


def _operator(asked: Mapping[str, Any]) -> Operator:
    return Operator(str(asked["type"]), dict(asked.get("parameters", {})), float(asked.get("bound", 0.0)))


@lru_cache(maxsize=1)
def _built() -> list[str] | None:
    """The operators of the library that is loaded here; None when that cannot be told."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        place = Path(line.split(maxsplit=5)[-1])
        if place.name.startswith("libadios2_core.so"):
            return built_into(place)
    return None
