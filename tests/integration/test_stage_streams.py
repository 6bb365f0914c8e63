"""`workflow.stage` from process to process: every type, shape and attribute, over every engine and number of ranks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.stage_programs import BUILDS, STEPS, end, expected, finish, has_mpi, metrics, started
from workflow.report.read.stage_metrics import read_metrics

RANKS = [(1, 1), (2, 1), (1, 3), (3, 2)]
Runs = list[tuple[int, str, str]]


def run_pair(folder: Path, engine: str, writers: int, readers: int, build: str, word: str = "") -> Runs:
    """A writer and a reader: together over SST, one after the other over a file."""
    path = folder / "stream"
    programs = [("write_everything", [end("write", engine, path)], writers)]
    programs.append(("read_everything", [end("read", engine, path)], readers))
    answers = []
    with ExitStack() as stack:
        processes = []
        for role, ends, ranks in programs:
            processes.append(stack.enter_context(started(folder, role, ends, ranks=ranks, build=build, word=word)))
            if engine not in ("SST", "SHM"):
                answers.append(finish(processes[-1]))
        return answers or [finish(process) for process in processes]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("writers", "readers"), RANKS)
@pytest.mark.parametrize("engine", ["SST", "SHM", "BP5", "HDF5"])
def test_what_is_written_is_read(tmp_path: Path, engine: str, writers: int, readers: int, build: str) -> None:
    answers = run_pair(tmp_path, engine, writers, readers, build)
    assert [code for code, _, _ in answers] == [0, 0], "\n".join(err for _, _, err in answers)
    for role, ranks, side in (("write_everything", writers, "write"), ("read_everything", readers, "read")):
        check_metrics(metrics(tmp_path, role), engine, ranks, side, build)


def check_metrics(lines: list[dict[str, Any]], engine: str, ranks: int, side: str, build: str) -> None:
    kinds = [line["kind"] for line in lines]
    assert kinds == ["start", "opening", "open", *["step"] * STEPS, "close", "end"]
    start, _, opened, *steps, closed, ended = lines
    assert start["ranks"] == ranks
    assert start["parallel"] == (has_mpi(build) and ranks > 1)
    assert (opened["stream"], opened["side"], opened["engine"]) == ("stream", side, engine)
    assert opened["seconds"] >= 0
    assert [line["step"] for line in steps] == list(range(STEPS))
    assert all(line["side"] == side for line in steps)
    assert all(min(line["wait_s"], line["io_s"], line["compute_s"]) >= 0 for line in steps)
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)
    assert (closed["steps"], closed["complete"], closed["error"]) == (STEPS, True, "")
    assert closed.get("ended") == (True if side == "read" else None)
    assert ended["compute_s"] >= 0
    check_ranks(closed.get("ranks"), start)
    if side == "write":
        sizes = [sum(v.nbytes for v in expected(step).values() if not isinstance(v, str)) for step in range(STEPS)]
        assert [line["bytes"] for line in steps] == sizes


def check_ranks(compared: dict[str, Any] | None, start: dict[str, Any]) -> None:
    """The slowest rank beside the median one, where each rank opens the stream."""
    assert (compared is not None) == start["parallel"]
    if compared is not None:
        assert compared["count"] == start["ranks"]
        for spread in (compared["moving_s"], compared["compute_s"]):
            assert spread["slowest"] >= spread["median"] > 0
            assert 0 <= spread["rank"] < start["ranks"]


# "alone": without workflow.stage. Only the ADIOS2 that `make adios2-mpi` builds then sends at once.
@pytest.mark.parametrize(
    ("what", "build"), [("some", build) for build in BUILDS] + [("alone", "mpi")] * ("mpi" in BUILDS)
)
def test_connections_of_sst_send_at_once(tmp_path: Path, what: str, build: str) -> None:
    path = tmp_path / "stream"
    with ExitStack() as stack:
        word = "print connections"
        processes = [
            stack.enter_context(started(tmp_path, f"{side}_{what}", [end(side, "SST", path)], build=build, word=word))
            for side in ("write", "read")
        ]
        for code, out, err in map(finish, processes):
            assert code == 0, err
            told = [line for line in out.splitlines() if line in ("at once", "late")]
            assert told, "no connection was found"
            assert set(told) == {"at once"}


def test_blocks_are_sent_in_chunks_that_every_mpi_can_count(tmp_path: Path) -> None:
    answers = run_pair(tmp_path, "BP5", 2, 3, "here", word="small chunks")
    assert [code for code, _, _ in answers] == [0, 0], "\n".join(err for _, _, err in answers)


def test_all_of_the_time_is_accounted_for(tmp_path: Path) -> None:
    run_pair(tmp_path, "BP5", 1, 1, "here")
    for role in ("write_everything", "read_everything"):
        lines = metrics(tmp_path, role)
        parts = sum(line.get(key, 0) for line in lines for key in ("wait_s", "io_s", "compute_s"))
        # The rest is opening and closing.
        assert 0 < parts <= lines[-1]["t"] - lines[0]["t"] + 1e-3


def test_bytes_read_are_those_of_all_ranks(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    for build in BUILDS:
        for role, side, ranks in (("write_some", "write", 2), ("read_some", "read", 3)):
            with started(tmp_path, role, [end(side, "BP5", path)], ranks=ranks, build=build) as process:
                code, _, err = finish(process)
            assert code == 0, err
            file = tmp_path / f"{role.replace('_', '-')}.jsonl"
            assert [step.bytes for step in read_metrics(file).steps] == [2 * 100 * 8] * STEPS
            file.unlink()


@pytest.mark.parametrize("build", BUILDS)
def test_bytes_of_local_blocks_are_those_of_all_ranks(tmp_path: Path, build: str) -> None:
    with started(tmp_path, "write_local_parts", [end("write", "BP5", tmp_path / "a")], ranks=2, build=build) as process:
        code, _, err = finish(process)
    assert code == 0, err
    found = [line["bytes"] for line in metrics(tmp_path, "write_local_parts") if line["kind"] == "step"]
    assert found == [8 * (3 + 5 * 2 + 3), 8 * (5 * 2 + 3)] * 2


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_stage_copies_a_stream_into_a_file(tmp_path: Path, ranks: int, build: str) -> None:
    stream, file = tmp_path / "stream", tmp_path / "file"
    with ExitStack() as stack:
        for role, ends, count in (
            ("write_everything", [end("write", "SST", stream)], 1),
            ("copy", [end("read", "SST", stream), end("write", "BP5", file, port="copy")], ranks),
        ):
            stack.enter_context(started(tmp_path, role, ends, ranks=count, build=build))
        copied = stack.enter_context(started(tmp_path, "read_everything", [end("read", "BP5", file)], build=build))
        code, _, err = finish(copied)
    assert code == 0, err


@pytest.mark.parametrize("engine", ["SST", "BP5"])
def test_a_serial_adios2_is_reported_once(tmp_path: Path, engine: str) -> None:
    answers = run_pair(tmp_path, engine, 2, 1, "here")
    assert answers[0][2].count("rank 0 reads and writes for all 2 ranks") == (0 if has_mpi("here") else 1)
    assert "rank 0" not in answers[1][2]
