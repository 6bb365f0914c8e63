"""A stage whose other end dies, is silent or breaks the contract: what it raises, and what it leaves behind."""

from __future__ import annotations

import re
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.stage_programs import BUILDS, SST, STEPS, end, finish, has_mpi, metrics, started

pytestmark = pytest.mark.turns(2)

# UCX ends the process of a reader whose writer dies during a transfer, before it can print a message.
TCP = {**SST, "DataTransport": "WAN"}


def without_ranks(err: str) -> str:
    """Error output without `rank 1 of 2: `, which says which of several ranks prints a message."""
    return re.sub(r"error: rank \d+ of \d+: ", "error: ", err)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("how", ["kill", "terminate", "raise", "raise inside", "raise last", "kill last", "exit last"])
def test_readers_of_a_failing_writer_fail_at_once(tmp_path: Path, how: str, ranks: int, build: str) -> None:
    path = tmp_path / "stream"
    ends = {side: [end(side, "SST", path, parameters=TCP)] for side in ("write", "read")}
    with (
        started(tmp_path, "write_some", ends["write"], ranks=ranks, build=build, word=how) as writer,
        started(tmp_path, "read_some", ends["read"], ranks=ranks, build=build) as reader,
    ):
        assert finish(writer)[0] != 0
        code, out, err = finish(reader)
    assert code != 0
    assert "no new step within" not in err, "it has waited until its own deadline"
    assert "the end" not in out
    assert "error: stream stream: " in without_ranks(err)
    assert "Traceback" not in err
    lines = metrics(tmp_path, "read_some")
    ended = [line for line in lines if line["kind"] in ("error", "close")]
    if lines[0]["parallel"] and not ended:
        assert "error: rank 1 of 2: " in err  # the rank whose data did not arrive has ended all ranks
        return
    said, closed = ended
    assert said["kind"] == "error"
    assert closed["error"] == f"StreamFailed: {said['error']}"
    assert not closed["complete"]
    assert closed["steps"] <= 2


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_silent_writer_is_a_timeout(tmp_path: Path, ranks: int, build: str) -> None:
    path = tmp_path / "stream"
    impatient = end("read", "SST", path, step_timeout_s=3)
    with (
        started(tmp_path, "write_some", [end("write", "SST", path)], word="wait"),
        started(tmp_path, "read_some", [impatient], ranks=ranks, build=build) as reader,
    ):
        code, out, err = finish(reader)
    assert code != 0
    assert "error: stream stream: no new step within 3 s, after 2 steps" in without_ranks(err)
    assert out.splitlines() == ["step 0: 0.0", "step 1: 1.0"]
    assert not metrics(tmp_path, "read_some")[-1].get("complete", False)


def test_a_writer_that_resumes_in_time_is_read_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with (
        started(tmp_path, "write_some", [end("write", "SST", path)], word="wait") as writer,
        started(tmp_path, "read_some", [end("read", "SST", path)]) as reader,
    ):
        assert reader.stdout is not None
        assert [reader.stdout.readline() for _ in range(2)] == ["step 0: 0.0\n", "step 1: 1.0\n"]
        # Several of the slices in which the reader waits.
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(timeout=2.5)
        (tmp_path / "go").touch()
        code, out, err = finish(reader)
    assert code == 0, err
    assert out.splitlines()[-1] == "the end"
    waits = [line["wait_s"] for line in metrics(tmp_path, "read_some") if line["kind"] == "step"]
    assert len(waits) == STEPS
    assert waits[2] > 1.2


@pytest.mark.parametrize("engine", ["SST", "BP5"])
def test_a_waiting_reader_reacts_to_ctrl_c(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "stream"
    with (
        started(tmp_path, "write_some", [end("write", engine, path)], word="wait"),
        started(tmp_path, "read_some", [end("read", engine, path)]) as reader,
    ):
        assert reader.stdout is not None
        assert [reader.stdout.readline() for _ in range(2)] == ["step 0: 0.0\n", "step 1: 1.0\n"]
        reader.send_signal(signal.SIGINT)
        code, _, err = finish(reader)
    assert code != 0
    assert err.splitlines()[-1] == "note: interrupted"
    closed = metrics(tmp_path, "read_some")[-2]
    assert (closed["complete"], closed["error"]) == (False, "KeyboardInterrupt")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("engine", ["SST", "BP5"])
def test_no_writer_is_a_timeout(tmp_path: Path, engine: str, ranks: int, build: str) -> None:
    nobody = end("read", engine, tmp_path / "stream", open_timeout_s=0.5)
    with started(tmp_path, "read_some", [nobody], ranks=ranks, build=build) as reader:
        code, _, err = finish(reader)
    assert code != 0
    assert "error: stream stream: no writer has opened" in without_ranks(err)
    assert err.count("error: ") == 1  # one rank prints the error for all


def test_a_stale_contact_file_is_a_failed_stream(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with (
        started(tmp_path, "write_some", [end("write", "SST", path)], word="kill") as writer,
        started(tmp_path, "read_some", [end("read", "SST", path)]) as reader,
    ):
        finish(writer)
        finish(reader)
    assert (tmp_path / "stream.sst").exists()
    with started(tmp_path, "read_some", [end("read", "SST", path)]) as late:
        code, _, err = finish(late)
    assert code != 0
    assert "error: stream stream: the writer of " in without_ranks(err)
    assert "does not answer: it has exited, or the file is left over from an earlier run" in err


def test_a_writer_that_raises_removes_its_contact_file(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with (
        started(tmp_path, "write_some", [end("write", "SST", path)], word="raise") as writer,
        started(tmp_path, "read_some", [end("read", "SST", path)]) as reader,
    ):
        finish(writer)
        finish(reader)
    assert not (tmp_path / "stream.sst").exists()
    closed = metrics(tmp_path, "write_some")[-2]
    assert (closed["kind"], closed["complete"], closed["steps"]) == ("close", False, 2)
    assert closed["error"] == "ArithmeticError: between two steps"


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("how", ["raise", "raise inside"])
def test_a_file_keeps_the_complete_steps_of_a_failing_writer(tmp_path: Path, how: str, ranks: int, build: str) -> None:
    path = tmp_path / "stream"
    with started(tmp_path, "write_some", [end("write", "BP5", path)], ranks=ranks, build=build, word=how) as writer:
        assert finish(writer)[0] != 0
    with started(tmp_path, "read_some", [end("read", "BP5", path, step_timeout_s=0.5)]) as reader:
        _, out, _ = finish(reader)
    assert [line for line in out.splitlines() if line.startswith("step")] == ["step 0: 0.0", "step 1: 1.0"]


def test_a_file_whose_writer_was_killed_ends_in_an_error(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with started(tmp_path, "write_some", [end("write", "BP5", path)], word="kill") as writer:
        finish(writer)
    with started(tmp_path, "read_some", [end("read", "BP5", path, step_timeout_s=0)]) as reader:
        code, out, err = finish(reader)
    assert code != 0
    assert out.splitlines() == ["step 0: 0.0", "step 1: 1.0"]
    assert "ends after 2 steps and was never closed: its writer died or is still running" in err


def test_metrics_of_a_killed_stage_are_whole_lines_up_to_the_last_step(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    for how in ("kill", "terminate"):
        with started(tmp_path, "write_some", [end("write", "BP5", path)], word=how) as writer:
            finish(writer)
        lines = metrics(tmp_path, "write_some")
        assert [line["kind"] for line in lines] == ["start", "opening", "open", "step", "step"]
        (tmp_path / "write-some.jsonl").unlink()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("side", ["read", "write"])
def test_a_broken_contract_is_reported_at_the_first_step(tmp_path: Path, side: str, ranks: int, build: str) -> None:
    path = tmp_path / "stream"
    wrong = {
        "a": {"type": "int", "shape": [3]},
        "aa": {"type": "float64", "shape": ["N"]},
    }
    ends = {each: end(each, "SST", path, variables=wrong if each == side else {}) for each in ("read", "write")}
    with (
        started(tmp_path, "write_some", [ends["write"]], ranks=ranks, build=build) as writer,
        started(tmp_path, "read_some", [ends["read"]], ranks=ranks, build=build) as reader,
    ):
        code, _, err = finish(reader if side == "read" else writer)
    assert code != 0
    role = "read_some" if side == "read" else "write_some"
    who = f"stage {role.replace('_', '-')}"
    needs = f"does not contain what {who} needs:"
    what = needs if side == "read" else f"of {who} does not contain what is declared for it:"
    assert f"error: stream stream {what}" in without_ranks(err)
    assert "variable a: expected type int, found float64" in err
    assert f"variable a: expected shape [3], found [{100 * ranks}] ({100 * ranks} is not 3)" in err
    assert "variable aa is missing; did you mean 'a'?" in err
    assert not [line for line in metrics(tmp_path, role) if line["kind"] == "step"]


def test_a_fulfilled_contract_prints_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    right = {"a": {"type": "float", "shape": ["N"]}}
    with (
        started(tmp_path, "write_some", [end("write", "SST", path, variables=right)]) as writer,
        started(tmp_path, "read_some", [end("read", "SST", path, variables=right)]) as reader,
    ):
        assert finish(writer)[0] == 0
        assert finish(reader)[0] == 0


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("what", ["raise last", "differ"])
def test_one_rank_that_fails_does_not_hang_the_others(tmp_path: Path, what: str, build: str) -> None:
    path = tmp_path / "stream"
    with started(tmp_path, "write_some", [end("write", "BP5", path)], build=build) as writer:
        assert finish(writer)[0] == 0
    with started(tmp_path, "read_badly", [end("read", "BP5", path)], ranks=3, build=build, word=what) as reader:
        code, out, err = finish(reader)
    parallel = has_mpi(build)
    assert metrics(tmp_path, "read_badly")[0]["parallel"] == parallel
    if what == "differ":
        assert (code, "make the same calls on all ranks" in err) == ((0, False) if parallel else (1, True))
    else:
        assert code != 0
        assert "rank 2 of 3: Traceback" in err
        assert [name for name in out.splitlines() if Path(name).exists()] == []
        assert "ArithmeticError: while reading" in err


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("engine", ["SST", "BP5"])
def test_parts_written_without_a_shape_are_not_lost(tmp_path: Path, engine: str, build: str) -> None:
    """In step 0 all ranks have the same. Step 1 fails, and does not arrive."""
    path = tmp_path / "stream"
    with ExitStack() as stack:
        role = "write_parts_without_a_shape"
        writer = stack.enter_context(started(tmp_path, role, [end("write", engine, path)], ranks=2, build=build))
        if engine == "SST":
            reader = stack.enter_context(started(tmp_path, "read_some", [end("read", engine, path)], build=build))
            answer = finish(reader)
            assert answer[0] != 0
            assert "step 1" not in answer[1]
        code, _, err = finish(writer)
    assert code != 0
    assert "the ranks have different values of 'field', written without a shape: only rank 0's would be stored" in err


def test_leaving_a_loop_early_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with (
        started(tmp_path, "write_some", [end("write", "SST", path)]) as writer,
        started(tmp_path, "read_badly", [end("read", "SST", path)], word="break") as reader,
    ):
        assert finish(reader)[0] == 0
        assert finish(writer)[0] == 0
    closed = metrics(tmp_path, "read_badly")[-2]
    assert (closed["kind"], closed["complete"], closed["steps"]) == ("close", True, 1)


def test_ranks_of_another_mpi_are_refused(tmp_path: Path) -> None:
    # A launcher of another MPI starts n single ranks, as is done here.
    with started(tmp_path, "write_some", [end("write", "BP5", tmp_path / "stream")]) as one:
        settings = tmp_path / "write-some.json"
        settings.write_text(settings.read_text().replace('"ranks": 1', '"ranks": 2'))
        code, _, err = finish(one)
    assert code != 0
    assert "was planned with 2 ranks, but MPI has 1" in err
