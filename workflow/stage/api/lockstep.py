"""Several streams read in lockstep."""

from __future__ import annotations

from collections.abc import Iterator

from workflow.stage.api.reader import Reader
from workflow.stage.api.step import Step
from workflow.stage.stage_errors import UnevenSteps
from workflow.stage.telemetry import process_metrics


def in_step(*readers: Reader) -> Iterator[tuple[Step, ...]]:
    """Iterate over several readers in lockstep: one tuple per step, with the step of each reader in argument order.

    >>> for atoms, field in stage.in_step(atoms_reader, field_reader):
    ...     here = atoms.read("position"), field.read("V")

    Ends when all streams end. Raises UnevenSteps when one stream ends before the others, and whatever the readers
    raise (see `Reader`).
    """
    while True:
        # Release all steps first: a writer that closes one stream waits until its last step is released, and has not
        # closed the other streams yet.
        for reader in readers:
            reader.release_step()
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
    error = UnevenSteps(
        f"stream {ended.name} ended after {ended.steps} steps, but {other.name}, read in lockstep with it, goes on; "
        "let both writers write the same number of steps"
    )
    process_metrics().error(other.name, error)
    return error
