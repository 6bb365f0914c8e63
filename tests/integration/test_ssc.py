"""SSC: stages of one launch line. What arrives is what was written, whatever the ranks, types and shapes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.ssc_runs import MPI_PYTHON, PROGRAMS, ROOT, command, environment, need_mpi, run

PAIR = """
stages:
  make: {command: %s, ranks: %d, writes: {data: {}}}
  take: {command: %s, ranks: %d, reads: {data: {}}}
streams:
  data: {from: make, to: take, via: ssc}
"""
CHAIN = """
stages:
  make: {command: %s, ranks: 2, writes: {data: {}}}
  pass: {command: %s, ranks: 2, reads: {data: {}}, writes: {copy: {}}}
  take: {command: %s, reads: {data: {}}}
streams:
  data: {from: make, to: pass, via: ssc}
  copy: {from: pass, to: take.data, via: ssc}
"""
# Writes or reads as many steps as it is told, and says how many there were.
COUNTING = """
import sys
import numpy as np
from workflow import stage
with stage.open_writer("data") if sys.argv[1] == "write" else stage.open_reader("data") as data:
    for step in range(int(sys.argv[2])) if sys.argv[1] == "write" else data:
        if sys.argv[1] == "write":
            data.attribute("long", "µ" * 3000)
            with data.step():
                data.write("text", "y" * (300 + step))
                data.write("x", np.arange(1000 * step, dtype=float))
        else:
            assert step.attributes() == {"long": "µ" * 3000}
            assert str(step.read("text")) == "y" * (300 + step.index)
            assert np.array_equal(step.read("x"), np.arange(1000 * step.index, dtype=float))
print(data.steps, "steps")
"""


@pytest.fixture(autouse=True)
def with_mpi() -> None:
    need_mpi()


def write(text: str, role: str = "read_everything", writers: int = 1, readers: int = 1) -> str:
    return text % (command(PROGRAMS, "write_everything"), writers, command(PROGRAMS, role), readers)


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("writers", [1, 2, 3])
def test_all_that_is_written_arrives(writers: int, readers: int, tmp_path: Path) -> None:
    """Every type, grids of one to three dimensions, sizes that change, blocks of unequal and of no size."""
    code, report, said = run(tmp_path, write(PAIR, writers=writers, readers=readers))
    assert code == 0, said
    stream = report["streams"][0]
    assert (stream["engine"], stream["steps"], stream["readers"][0]["steps"]) == ("SSC", 4, 4)
    assert not list((tmp_path / "run/streams").iterdir()), "SSC left files of its handshake"


def test_a_chain_is_one_launch(tmp_path: Path) -> None:
    programs = (command(PROGRAMS, role) for role in ("write_everything", "copy", "read_everything"))
    code, report, said = run(tmp_path, CHAIN % tuple(programs))
    assert code == 0, said
    assert [stream["readers"][0]["steps"] for stream in report["streams"]] == [4, 4]
    plan = json.loads((tmp_path / "run/plan.json").read_text())
    assert [group["stages"] for group in plan["groups"]] == [["make", "pass", "take"]]


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_streams_of_few_steps_and_long_texts(steps: int, tmp_path: Path) -> None:
    program = tmp_path / "counting.py"
    program.write_text(COUNTING)
    text = PAIR % (command(program, "write", str(steps)), 1, command(program, "read", "0"), 1)
    code, _, said = run(tmp_path, text)
    assert code == 0, said
    assert f"{steps} steps" in (tmp_path / "run/stages/take/stdout.log").read_text(), said


def test_a_reader_that_leaves_early_fails_by_its_count(tmp_path: Path) -> None:
    text = PAIR % (command(PROGRAMS, "write_some", "none"), 2, command(PROGRAMS, "read_badly", "break"), 1)
    code, report, said = run(tmp_path, text)
    assert code == 1, said
    assert report["run"]["stage"] == "take", said
    assert "of the 4 steps that make wrote" in report["run"]["reason"], said


def test_each_stage_has_its_own_directory_environment_and_output(tmp_path: Path) -> None:
    program = tmp_path / "where.py"
    program.write_text("import os\nprint(os.environ['WHO'], os.getcwd(), os.environ['WF_STAGE'])\n" + COUNTING)
    text = PAIR % (command(program, "write", "1"), 1, command(program, "read", "0"), 1)
    text = text.replace("writes:", "env: {WHO: maker}, writes:").replace("reads:", "env: {WHO: taker}, reads:")
    code, _, said = run(tmp_path, text)
    assert code == 0, said
    for who, stage in (("maker", "make"), ("taker", "take")):
        folder = tmp_path / "run/stages" / stage
        assert f"{who} {folder}/work {folder}/stage.json" in (folder / "stdout.log").read_text()


def test_gray_scott_through_ssc_is_gray_scott_through_sst(tmp_path: Path) -> None:
    pipeline = str(ROOT / "examples/02-gray-scott/pipeline.yaml")
    quick = ["--set", "stages.simulation.with.steps=300", "--set", "stages.simulation.with.size=[24]"]
    quick += ["--set", "oversubscribe=true"]
    for via in ("ssc", "sst-tcp"):
        wf("run", pipeline, "-q", "--via", via, "--run-dir", via, *quick, cwd=tmp_path)
    assert "identical" in wf("compare", "ssc", "sst-tcp", cwd=tmp_path)


def wf(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [MPI_PYTHON, "-m", "workflow.cli", *words], cwd=cwd, env=environment(), capture_output=True, text=True,
        timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SHARED = """
stages:
  make: {component: synthetic, ranks: 3, with: {grid_points: 1000, particles: 500, steps: 3}}
  keep: {component: archive, ranks: 2, with: {path: kept.bp}}
streams:
  data: {from: make, to: keep, via: ssc, strategy: blocks, tap: {look: {component: "null"}}}
"""


def test_strategies_and_taps_work_through_ssc_as_through_sst(tmp_path: Path) -> None:
    runs = {}
    for via in ("ssc", "sst"):
        (tmp_path / via).mkdir()
        code, report, said = run(tmp_path / via, SHARED, "--via", via)
        assert code == 0, said
        runs[via] = str(tmp_path / via / "run")
        # The tap has a queue of its own, which SSC has not.
        tap = "SST" if via == "sst" else "SHM"
        assert [stream["engine"] for stream in report["streams"]] == [tap, via.upper()]
    compare = [MPI_PYTHON, "-m", "workflow.cli", "compare", *runs.values()]
    done = subprocess.run(compare, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "identical: 1 file, 3 steps" in done.stdout
