"""What a stage does when the other end of a stream does not come, sends no step, or dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.formats.stage_file import StreamEnd
from workflow.stage.stage_errors import StreamFailed, StreamTimeout
from workflow.stage.stream_engines import StepStatus
from workflow.stage.timeouts import contact_file, no_step_error, wait_for_writer


def reader_of(path: str, engine: str = "SST", open_timeout_s: float = 5.0, step_timeout_s: float = 2.5) -> StreamEnd:
    return StreamEnd(
        "atoms", "atoms", "read", engine, path, open_timeout_s=open_timeout_s, step_timeout_s=step_timeout_s
    )


@pytest.mark.parametrize(
    ("status", "step_timeout_s", "steps", "kind", "message"),
    [
        (StepStatus.LATE, 2.5, 0, StreamTimeout, "stream atoms: no new step within 2.5 s, before the first step"),
        (StepStatus.LATE, 2.5, 3, StreamTimeout, "stream atoms: no new step within 2.5 s, after 3 steps"),
        (
            StepStatus.FAILED, 2.5, 3, StreamFailed,
            "stream atoms: its writer died, or exited without closing the stream, after 3 steps",
        ),
        (
            StepStatus.LATE, 0.0, 2, StreamFailed,
            "stream atoms: a.bp ends after 2 steps and was never closed: its writer died or is still running; "
            "to wait for more steps, pass step_timeout_s",
        ),
    ],
)  # fmt: skip
def test_the_error_of_a_reader_without_a_step(
    status: StepStatus, step_timeout_s: float, steps: int, kind: type[Exception], message: str
) -> None:
    error = no_step_error(reader_of("a.bp", step_timeout_s=step_timeout_s), status, steps)
    assert type(error) is kind
    assert str(error) == message
    assert error.agreed


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("SST", "out/atoms.sst"),
        ("sst", "out/atoms.sst"),
        ("BP5", "out/atoms/md.idx"),
        ("BP4", "out/atoms/md.idx"),
        ("HDF5", "out/atoms"),
        ("SHM", "out/atoms.shm"),
    ],
)
def test_the_file_that_shows_an_open_writer(engine: str, expected: str) -> None:
    assert str(contact_file(reader_of("out/atoms", engine))) == expected


def test_sst_without_a_contact_file_is_not_waited_for() -> None:
    end = StreamEnd("atoms", "atoms", "read", "SST", "atoms", {"RegistrationMethod": "Screen"})
    assert contact_file(end) is None
    wait_for_writer(end)


def test_an_empty_contact_file_is_no_open_writer(tmp_path: Path) -> None:
    """ADIOS2 creates the file before it fills it."""
    end = reader_of(str(tmp_path / "atoms"), open_timeout_s=0.01)
    contact = tmp_path / "atoms.sst"
    contact.touch()
    with pytest.raises(StreamTimeout, match=r"no writer has opened .*/atoms within 0\.01 s"):
        wait_for_writer(end)
    contact.write_text("x")
    wait_for_writer(end)


def test_a_file_given_by_path_must_exist(tmp_path: Path) -> None:
    with pytest.raises(StreamFailed, match=r"stream atoms: there is no .*/a\.bp"):
        wait_for_writer(reader_of(str(tmp_path / "a.bp"), "BP5", open_timeout_s=0.0))
