"""Errors of `workflow.stage`. The message of each names the stream.

Errors with `agreed = True` are raised by every rank of the stage at the same call: rank 0 prints them for all.
"""

from __future__ import annotations


class StageError(RuntimeError):
    """Base class of the errors of `workflow.stage`. Raised itself for a call that cannot work."""

    agreed = False


class StreamTimeout(StageError):  # noqa: N818, an event of the stream
    """The other end of a stream did not open it, or sent no step, within the timeout."""

    agreed = True


class StreamFailed(StageError):  # noqa: N818
    """The program at the other end of a stream died, or exited without closing the stream."""

    agreed = True


class ContractError(StageError):
    """The variables of a step differ from what the pipeline declares for the stream."""

    agreed = True


class UnevenSteps(StageError):  # noqa: N818
    """One of several streams that are read in lockstep ended before the others."""

    agreed = True


class RanksDiffer(StageError):  # noqa: N818
    """The ranks of a stage did not make the same collective call."""

    agreed = True


class BoundExceeded(StageError):  # noqa: N818
    """A compressed variable arrived with a larger error than the pipeline allows."""

    agreed = True


class StepRemoved(StageError):  # noqa: N818
    """The run that keeps a stream has removed this step while it was read: what was read of it is not valid.

    Go on with the next step: `except stage.StepRemoved: continue`.
    """


class RunStopped(SystemExit):
    """The run is being stopped, and this program must end now, with exit code 0.

    Raised on every rank, at the beginning of a step. `with` blocks are left as at their end: streams are closed.
    """

    def __init__(self) -> None:
        super().__init__(0)


def exit_reason(error: BaseException | None) -> str:
    """The exception that left a `with` block, in one line; "" for a normal exit, `sys.exit(0)` included."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
