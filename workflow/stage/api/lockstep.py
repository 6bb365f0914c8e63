"""Several streams read side by side."""

from __future__ import annotations

from collections.abc import Iterator

from workflow.stage.api.reader import Reader
from workflow.stage.api.step import Step
from workflow.stage.stage_errors import StageError
from workflow.stage.telemetry import process_metrics


class UnevenSteps(StageError):  # noqa: N818, as its relatives
    """Of several streams that are read side by side one ended before the others."""

    agreed = True


def in_step(*readers: Reader) -> Iterator[tuple[Step, ...]]:
    """The first steps of all these readers, then the second ones, and so on; ends when all streams end.

    >>> for atoms, field in stage.in_step(atoms_reader, field_reader):
    ...     here = atoms.read("position"), field.read("V")

    Raises UnevenSteps when one stream ends before the others, and what the readers raise.
    """
    while True:
        # All of them first: a writer that closes one stream waits for its last step, and has not closed the others yet.
        for reader in readers:
            reader.give_back()
        steps = [next(reader, None) for reader in readers]
        here = tuple(step for step in steps if step is not None)
        if len(here) < len(readers):
            if here:
                raise _uneven(readers, steps)
            return
        yield here


def _uneven(readers: tuple[Reader, ...], steps: list[Step | None]) -> UnevenSteps:
    ended = next(reader for reader, step in zip(readers, steps, strict=True) if step is None)
    other = next(reader for reader, step in zip(readers, steps, strict=True) if step is not None)
    text = (
        f"stream {ended.name} ended after {ended.steps} steps, but {other.name}, read side by side with it, goes on; "
        "give both writers the same number of steps"
    )
    error = UnevenSteps(text)
    process_metrics().error(other.name, error)
    return error
