"""What can go wrong at a stage's side of a stream. All carry the stream's name in their text."""

from __future__ import annotations


class StageError(RuntimeError):
    """Base of all errors of `workflow.stage`; itself: the API was used in a way that cannot work.

    `agreed` is true where every rank of the stage raises the same error at the same call, so that one
    rank may speak for all.
    """

    agreed = False


class StreamTimeout(StageError):  # noqa: N818, it is what happened to the stream
    """The other end of a stream is silent: nothing to open, or no step, within the time allowed."""

    agreed = True


class StreamFailed(StageError):  # noqa: N818
    """The other end of a stream died, or left it without closing it."""

    agreed = True


class ContractError(StageError):
    """What arrived, or was written, is not what the pipeline says about this stream."""

    agreed = True


def left_by(error: BaseException | None) -> str:
    """What ended a `with` block, in one line; "" for its normal end, `sys.exit(0)` included."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
