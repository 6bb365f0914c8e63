"""Parts of a stream as one BP5 file: ADIOS2 reads from it what it reads from the parts, bit by bit."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines import ROOT
from workflow.formats.bp5_metadata import whole_steps
from workflow.formats.bp_index import read_index
from workflow.formats.joined_bp import FIRST_SUBFILE, BpPiece, JoinError, join_bp5

MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
PROGRAM = ROOT / "tests/support/bp_parts.py"
# ADIOS2 says of these one shape for all steps when it reads by random access, that of the first or of the last step:
# where the number of writers changes, in a file that it wrote alone, too.
HOW = ("stream", "random")
ONE_SHAPE = ("rank", "joined")


@pytest.fixture(params=["serial", "mpi"])
def python(request: pytest.FixtureRequest) -> str:
    if request.param == "mpi" and not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    return MPI_PYTHON if request.param == "mpi" else sys.executable


def program(python: str, *words: str, ranks: int = 0) -> str:
    start = [str(Path(python).with_name("mpiexec")), "-n", str(ranks)] if ranks else []
    done = subprocess.run([*start, python, PROGRAM, *words], capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, f"{words}: {done.returncode} {done.stderr}"
    return done.stdout


def write(python: str, path: Path, first: int, steps: int, ranks: int = 0, **more: Any) -> Path:
    spec = {"first": first, "steps": steps, "mpi": ranks, **more}
    program(python, "write", json.dumps([[str(path), spec]]), ranks=ranks)
    return path


def read(python: str, *jobs: tuple[Path, str, dict[str, str]]) -> list[Any]:
    """What is read from each file by its way and with its parameters."""
    found = json.loads(program(python, "read", json.dumps([[str(path), *rest] for path, *rest in jobs])))
    assert isinstance(found, list)
    return found


def without(step: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name not in names}


def by_variable(steps: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = sorted({name for step in steps for name in without(step, "attributes")})
    return {name: [step[name] for step in steps if name in step] for name in names}


def sums(*folders: Path) -> dict[str, tuple[str, int]]:
    files = [file for folder in folders for file in sorted(folder.iterdir())]
    return {str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns) for file in files}


def check(python: str, target: Path, pieces: list[BpPiece], one_shape: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Join, and compare what both ways of reading give with what is read from the pieces."""
    before = sums(*(piece.path for piece in pieces))
    steps = join_bp5(pieces, target)
    parts: list[tuple[Path, str, dict[str, str]]] = [(piece.path, "stream", {}) for piece in pieces]
    got, found, *parts_read = read(python, (target, "stream", {}), (target, "random", {}), *parts)
    assert sums(*(piece.path for piece in pieces)) == before
    want = [step for piece, part in zip(pieces, parts_read, strict=True) for step in part[: piece.steps]]
    assert [without(step, "attributes") for step in got] == [without(step, "attributes") for step in want]
    index = read_index(target / "md.idx")
    assert index is not None and (index.steps, index.active) == (steps, False)
    assert found["steps"] == steps == len(want) and found["attributes"] == got[-1]["attributes"]
    assert without(found, "steps", "attributes", *one_shape) == without(by_variable(want), *one_shape)
    return list(got)


def test_two_and_three_parts_cut_and_joined_again(python: str, tmp_path: Path) -> None:
    same: dict[str, Any] = {"units": "m", "list": [1.5, 2.5]}
    a = write(python, tmp_path / "a.bp", 0, 4, attributes={**same, "part": 1})
    b = write(python, tmp_path / "b.bp", 3, 4, attributes={**same, "part": [2, 3], "more": "text"})
    c = write(python, tmp_path / "c.bp", 5, 3, flush=1)
    got = check(python, tmp_path / "ab.bp", [BpPiece(a, 3), BpPiece(b)])
    assert [step["attributes"].get("part") for step in got] == ["1"] * 3 + ["{ 2, 3 }"] * 4
    assert all(step["attributes"]["units"] == '"m"' for step in got)
    check(python, tmp_path / "abc.bp", [BpPiece(a, 3), BpPiece(b, 2), BpPiece(c)])
    # The joined file is a part of another; what has no step is none.
    again = tmp_path / "again.bp"
    got = check(python, again, [BpPiece(tmp_path / "ab.bp", 5), BpPiece(b, 0), BpPiece(c)])
    assert len(got) == 8
    assert (again / f"data.{FIRST_SUBFILE}").readlink() == a / "data.0"
    # ADIOS2 counts the last one in.
    three, each_third = read(python, *((again, "stream", {"SelectSteps": chosen}) for chosen in ("4:6", "0:7:3")))
    assert [without(step, "attributes") for step in three] == [without(step, "attributes") for step in got[4:7]]
    assert [without(step, "attributes") for step in each_third] == [without(step, "attributes") for step in got[::3]]


def test_a_killed_writer_and_a_record_that_is_cut_off(python: str, tmp_path: Path) -> None:
    a = write(python, tmp_path / "a.bp", 0, 3, kill=1)
    b = write(python, tmp_path / "b.bp", 3, 2)
    index = read_index(a / "md.idx")
    assert index is not None and (index.steps, index.active) == (3, True)
    data = (a / "md.idx").read_bytes()
    (a / "md.idx").write_bytes(data[:-5])
    formats = (a / "mmd.0").read_bytes()
    (a / "mmd.0").write_bytes(formats + b"\x0c" + bytes(9))
    assert join_bp5([BpPiece(a), BpPiece(b)], tmp_path / "ab.bp") == 4
    # ADIOS2 reads these only where they are whole and ended.
    (a / "md.idx").write_bytes(data[:39] + b"\0" + data[40:])
    (a / "mmd.0").write_bytes(formats)
    joined, first, second = read(python, *((path, "stream", {}) for path in (tmp_path / "ab.bp", a, b)))
    assert joined == first[:2] + second


def test_the_number_of_writers_changes(mpi_python: str, tmp_path: Path) -> None:
    parts = [
        write(mpi_python, tmp_path / "a.bp", 0, 3, 1, seed=1, operator="zfp"),
        write(mpi_python, tmp_path / "b.bp", 3, 3, 3, seed=2, operator="blosc", attributes={"part": 2}),
        write(mpi_python, tmp_path / "c.bp", 6, 3, 2, seed=3, operator="zfp"),
    ]
    check(mpi_python, tmp_path / "abc.bp", [BpPiece(parts[0], 2), *map(BpPiece, parts[1:])], ONE_SHAPE)
    bpls = Path(mpi_python).with_name("bpls")
    listed = subprocess.run([bpls, tmp_path / "abc.bp", "number"], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["int64_t", "number", "8*scalar"]


@pytest.mark.parametrize("cut", [2, 3])
def test_it_reads_as_what_adios2_has_appended(cut: int, mpi_python: str, tmp_path: Path) -> None:
    """With all that ADIOS2 says of shapes and attributes where the number of writers changes."""
    options: dict[str, Any] = {"operator": "zfp", "attributes": {"part": 1}}
    rest: dict[str, Any] = {"seed": 5, "operator": "zfp", "attributes": {"part": 2}}
    a = write(mpi_python, tmp_path / "a.bp", 0, 3, 2, **options)
    whole = write(mpi_python, tmp_path / "whole.bp", 0, 3, 2, **options)
    write(mpi_python, whole, cut, 3, 3, append=1, parameters={"AppendAfterSteps": str(cut)}, **rest)
    b = write(mpi_python, tmp_path / "b.bp", cut, 3, 3, **rest)
    join_bp5([BpPiece(a, cut), BpPiece(b)], tmp_path / "ab.bp")
    stream, random_, *want = read(mpi_python, *((p, h, {}) for p in (tmp_path / "ab.bp", whole) for h in HOW))
    assert [stream, random_] == want


@pytest.mark.parametrize(
    "parameters",
    [
        {"AggregationType": "EveryoneWrites", "NumAggregators": "2"},
        {"AggregationType": "EveryoneWritesSerial", "NumAggregators": "1"},
        {"AggregationType": "TwoLevelShm", "NumAggregators": "3", "NumSubFiles": "2"},
        {"AggregationType": "DataSizeBased", "NumSubFiles": "2"},
        {"AsyncWrite": "Guided"},
        {"UseSelectiveMetadataAggregation": "false", "UseOneTimeAttributes": "false", "BufferVType": "malloc"},
    ],
    ids=lambda parameters: next(iter(parameters.values())),
)
def test_ways_to_write(parameters: dict[str, str], mpi_python: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"parameters": parameters, "attributes": {"part": 1}}
    a = write(mpi_python, tmp_path / "a.bp", 0, 3, 3, seed=1, **options)
    b = write(mpi_python, tmp_path / "b.bp", 3, 3, 3, seed=2, flush=1, **options)
    check(mpi_python, tmp_path / "ab.bp", [BpPiece(a, 2), BpPiece(b, 2)])


def test_what_is_written_into_it_does_not_reach_the_parts(mpi_python: str, tmp_path: Path) -> None:
    a = write(mpi_python, tmp_path / "a.bp", 0, 2, 2)
    b = write(mpi_python, tmp_path / "b.bp", 2, 2, 1)
    before = sums(a, b)
    joined = tmp_path / "ab.bp"
    *steps, _ = check(mpi_python, joined, [BpPiece(a), BpPiece(b)], ONE_SHAPE)
    for after in (4, 3):
        write(mpi_python, joined, after, 2, 2, append=1, parameters={"AppendAfterSteps": str(after)})
        (got,) = read(mpi_python, (joined, "stream", {}))
        assert got[:3] == steps and [step["word"][:6] for step in got[after:]] == [f"step {after + n}" for n in (0, 1)]
        assert sums(a, b) == before
    write(mpi_python, joined, 0, 1, 2)
    assert not list(joined.glob(f"data.{FIRST_SUBFILE}*")) and sums(a, b) == before


@pytest.mark.parametrize("seed", range(4))
def test_random_parts(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    first, pieces, jobs = 0, [], []
    for part in range(chance.randint(2, 4)):
        steps = chance.randint(1, 5)
        spec = {"first": first, "steps": steps, "seed": chance.randint(0, 999), "flush": chance.choice([0, 1])}
        pieces.append(BpPiece(tmp_path / f"{part}.bp", chance.randint(1, steps)))
        jobs.append((str(pieces[-1].path), spec))
        first += pieces[-1].steps or 0
    program(sys.executable, "write", json.dumps(jobs))
    check(sys.executable, tmp_path / "joined.bp", pieces)


def test_what_adios2_would_misread_is_refused(mpi_python: str, tmp_path: Path) -> None:
    both = write(mpi_python, tmp_path / "both.bp", 1, 2, 2, variables=["packed", "local"])
    first = write(mpi_python, tmp_path / "first.bp", 3, 2, 2, variables=["packed", "local"], only={"packed": [0]})
    zfp = write(mpi_python, tmp_path / "zfp.bp", 3, 2, 2, variables=["packed", "local"], operator="zfp")
    plain = write(mpi_python, tmp_path / "plain.bp", 3, 2, 2, variables=["packed"], parameters={"StatsLevel": "0"})
    with pytest.raises(JoinError, match="writer 1 writes packed in the first, in the second others do"):
        join_bp5([BpPiece(both), BpPiece(first)], tmp_path / "joined.bp")
    for other in (zfp, plain):
        with pytest.raises(JoinError, match="store packed in different ways"):
            join_bp5([BpPiece(both), BpPiece(other)], tmp_path / "joined.bp")
    # The other way round a reader meets a writer's variable that it has not met yet.
    check(mpi_python, tmp_path / "joined.bp", [BpPiece(first), BpPiece(both)])


@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("flush", [False, True])
def test_a_step_is_whole_when_all_its_parts_are_there(flush: bool, ranks: int, tmp_path: Path) -> None:
    """What a power cut may leave: a file cut off at any place. All steps before are whole, and ADIOS2 reads them."""
    python = MPI_PYTHON if ranks else sys.executable
    if not python:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    path = write(python, tmp_path / "a.bp", 0, 4, ranks=ranks, flush=flush)
    assert whole_steps(path) == 4
    wanted = read(python, (path, "stream", {}))[0]
    dice = random.Random(ranks)
    names = ["md.idx", "md.0", *(each.name for each in path.glob("data.*") if each.stat().st_size)]
    for name in names * 3:
        torn = tmp_path / "torn.bp"
        shutil.rmtree(torn, ignore_errors=True)
        shutil.copytree(path, torn)
        size = (torn / name).stat().st_size
        os.truncate(torn / name, dice.randrange(64 if name == "md.idx" else 0, size))
        steps = whole_steps(torn)
        assert steps < 4, f"{name} is torn"
        if steps:
            assert join_bp5([BpPiece(torn, steps)], tmp_path / f"{name}-{dice.random()}.bp") == steps
            joined = max(tmp_path.glob(f"{name}-*.bp"), key=lambda each: each.stat().st_mtime_ns)
            assert read(python, (joined, "stream", {}))[0] == wanted[:steps], f"{name}, {steps} steps"
