"""What a stage does when the other end of a stream does not come, sends no step, or dies.

| wait | limit | what is raised |
|---|---|---|
| a reader opens: for the writer | `open_timeout_s` | StreamTimeout; StreamFailed for a file that must exist |
| a reader: for the next step | `step_timeout_s`; None: no limit | StreamTimeout; StreamFailed if the writer is gone |
| a writer: in open or in end_step, for its readers | none here | the supervisor's deadlines end the run |

The error is written to the stage's metrics as a line of kind `error` and raised on every rank. A program that does
not catch it exits with code 1 and takes all its ranks along (`uncaught_errors`); the supervisor decides from
that line which stage caused the failure. The limits come from the stage's settings (in a run: `deadlines` of the
pipeline), or from the arguments of `open_reader`.
"""

from __future__ import annotations

import time
from pathlib import Path

from workflow.formats.stage_file import StreamEnd
from workflow.formats.step_files import first_file, is_numbered
from workflow.stage.stage_errors import StreamFailed, StreamTimeout
from workflow.stage.stream_engines import StepStatus

_POLL_S = 0.01


def wait_for_writer(end: StreamEnd) -> None:
    """Return when the writer has opened the stream. Raises StreamTimeout after `end.open_timeout_s`.

    With a limit of 0, for files given by path, raises StreamFailed at once when there is no file.
    ADIOS2 would wait too, but without reacting to Ctrl-C, for an hour in case of a file, and it polls less often.
    """
    deadline = time.monotonic() + end.open_timeout_s
    while (contact := contact_file(end)) is not None and not _has_content(contact):
        if time.monotonic() >= deadline:
            if end.open_timeout_s == 0:
                raise StreamFailed(f"stream {end.stream}: there is no {end.path}")
            raise StreamTimeout(f"stream {end.stream}: no writer has opened {end.path} within {end.open_timeout_s:g} s")
        time.sleep(_POLL_S)


def contact_file(end: StreamEnd) -> Path | None:
    """The file that exists once the writer has opened this stream; None where there is no such file."""
    if end.traits.in_memory:
        by_file = end.parameters.get("RegistrationMethod", "File").lower() == "file"
        return Path(end.path + end.traits.contact_suffix) if by_file else None
    if is_numbered(end.path):
        return first_file(end.path)
    return Path(end.path) / "md.idx" if end.traits.counted_by == "index" else Path(end.path)


def no_step_error(end: StreamEnd, status: StepStatus, steps: int) -> StreamTimeout | StreamFailed:
    """The error of a reader that got `status` (LATE or FAILED) instead of a step, after `steps` complete steps."""
    seen = f"after {steps} steps" if steps else "before the first step"
    if status is StepStatus.FAILED:
        return StreamFailed(f"stream {end.stream}: its writer died, or exited without closing the stream, {seen}")
    if end.step_timeout_s == 0:
        return StreamFailed(
            f"stream {end.stream}: {end.path} ends {seen} and was never closed: its writer died or is still running; "
            "to wait for more steps, pass step_timeout_s"
        )
    return StreamTimeout(f"stream {end.stream}: no new step within {end.step_timeout_s:g} s, {seen}")


def _has_content(path: Path) -> bool:
    """Whether the file exists and is not empty: ADIOS2 creates its files before it fills them."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
