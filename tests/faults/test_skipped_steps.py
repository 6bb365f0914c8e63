"""`same_step: skip`: a step at which a stage fails twice is left out, and nothing else: in the run, and in later parts.

The pipeline is sim → work → keep. `work` or `keep` fails each time that it gets one of the steps that a file names.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import adios2
import numpy as np
import pytest

from tests.support.long_tables import long_table
from tests.support.pipelines import Done, run
from tests.support.reliability import note, ways
from tests.support.resumed_runs import wf

STEPS = 20
# It adds up over its steps, and writes the sum; without a State, it writes the step alone. `same` is as the first
# attempt had it.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
from workflow import stage

known = json.loads(Path(sys.argv[1]).read_text())
sink = len(sys.argv) > 2


def fail(where, index):
    if where != known["where"] or index not in known["at"]:
        return
    if known["how"] == "raise":
        raise ArithmeticError("requested by the test")
    while known["how"] == "hang":
        signal.pause()
    if known["how"] == "exit0":
        os._exit(0)
    if known["how"] == "exit1":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGSEGV)


def work(fields, write):
    state = stage.State(total=0) if known["save"] else {"total": 0}
    for step in fields:
        fail("before", step.index)
        value = int(step.read("step"))
        stage.once("first", lambda: value)
        state["total"] = state["total"] * bool(known["save"]) + value
        write(step, value, state["total"])
        fail("after", step.index)
        if known["save"] and step.index % known["save"] == known["save"] - 1:
            state.save()


with stage.open_reader("result" if sink else "field") as fields:
    if sink:
        # What it has read stands in a file of its own, a line for each step.
        with open(sys.argv[2], "a") as out:
            work(fields, lambda step, value, total: print(step.index, value, file=out, flush=True))
    else:
        with stage.open_writer("result") as result:
            def write(step, value, total):
                with result.step():
                    result.write("index", np.int64(value))
                    fail("inside", step.index)
                    result.write("total", np.int64(total))
            work(fields, write)
"""
SIMULATION = """
import time
import numpy as np
from workflow import stage
with stage.open_writer("field") as field:
    for step in range(20):
        with field.step():
            field.write("step", np.int64(step))
            if step not in (5, 11):
                field.write("extra", np.int64(step))
        time.sleep(0.02)
"""
PIPELINE = """
stages:
  sim: {{command: ["${{{{ wf.python }}}}", "{folder}/sim.py"], writes: {{field: {{}}}}}}
  work:
    command: ["${{{{ wf.python }}}}", "{folder}/work.py", "{folder}/work.json"]
    reads: {{field: {{}}}}
    writes: {{result: {{}}}}
    on_failure: {{do: restart, same_step: {same}, times: {times}, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""
WAYS = ways("live then sst", "live then live", "after then after", "spool then sst", "shm, spool then shm")


class Cell(NamedTuple):
    """`at`: the steps at which the stage fails, each time that it gets one. `save`: it saves a state after so many
    steps."""

    way: str
    how: str = "exit1"
    where: str = "before"
    at: tuple[int, ...] = (5,)
    save: int = 0

    def __str__(self) -> str:
        return f"{self.way}, {self.how} {self.where} {' '.join(map(str, self.at))}, save {self.save}"


def cells() -> list[Cell]:
    """Each end and each place, at some steps; the same ones each time."""
    dice, found = random.Random(4), []
    for way in WAYS:
        for how in ("exit1", "exit0", "raise", "segv"):
            for where in ("before", "inside"):
                at = tuple(sorted(dice.sample(range(STEPS), dice.choice([1, 2, 3]))))
                found.append(Cell(way, how, where, at, dice.choice([0, 1, 3])))
        found += [Cell(way, at=(0, 1)), Cell(way, at=(STEPS - 1,)), Cell(way, at=(7, 8, 9), save=4)]
    return found


def start(
    folder: Path, cell: Cell, *, times: int = 9, same: str = "skip", sets: str = "", text: str = PIPELINE
) -> Done:
    first, second = WAYS[cell.way]
    (folder / "sim.py").write_text(SIMULATION)
    (folder / "work.py").write_text(PROGRAM)
    set_failures(folder, cell)
    filled = text.format(folder=folder, first=first, second=second, times=times, same=same)
    return run(folder, filled, *(["--set", sets] if sets else []))


def set_failures(folder: Path, cell: Cell) -> None:
    (folder / "work.json").write_text(json.dumps(cell._asdict()))


def read(path: Path, name: str) -> list[Any]:
    with adios2.FileReader(str(path)) as file:
        return [int(np.asarray(value).item()) for value in file.read(name, step_selection=[0, steps_of(path)])]


def steps_of(path: Path) -> int:
    with adios2.FileReader(str(path)) as file:
        return int(file.num_steps())


def assert_without(done: Done, skipped: Sequence[int], cell: Cell, file: str = "kept.bp") -> None:
    """All steps but these are in the output, each once, and in the sums."""
    left = [step for step in range(STEPS) if step not in skipped]
    assert read(done.folder / file, "index") == left
    sums = list(np.cumsum(left)) if cell.save else left
    assert read(done.folder / file, "total") == sums


@pytest.mark.parametrize("cell", long_table(cells(), sample=1, seed=1), ids=str)
def test_the_steps_at_which_it_fails_are_left_out_and_no_other(cell: Cell, tmp_path: Path) -> None:
    done = start(tmp_path, cell)
    assert done.code == 0, done.said
    assert_without(done, cell.at, cell)
    report = done.report
    assert report.stage("work").skipped == [*cell.at]
    assert [each.skipped for each in report.restarts if each.skipped is not None] == [*cell.at]
    assert len(report.restarts) == 2 * len(cell.at)
    assert (report.stage("work").steps_in, report.stage("work").steps_out) == (STEPS, STEPS - len(cell.at))
    assert report.stage("keep").steps_in == STEPS - len(cell.at)
    for step in cell.at:
        assert any(text.startswith(f"work: step {step} was skipped: ") for text in report.warnings), report.warnings
    note("skips", way=cell.way, how=cell.how, steps=len(cell.at), state=bool(cell.save), equal=True)


def test_what_is_skipped_is_said(tmp_path: Path) -> None:
    done = start(tmp_path, Cell("live then live"))
    assert "warning: work: step 5 was skipped: ended with exit code 1 both times" in done.said
    assert any(
        "attempt 3 began at step 5, without step 5, at which it failed twice" in each for each in done.report.notes
    )
    code, said = wf(tmp_path, "events", str(done.folder))
    assert code == 0
    assert (
        "work: ended with exit code 1, a second time at step 5; it is started again in 100 ms, without this step"
        in said
    )
    assert "work: attempt 3, from step 5 on; work skips step 5" in said


@pytest.mark.reliability
def test_a_hang_at_the_same_step(tmp_path: Path) -> None:
    cell = Cell("live then live", "hang")
    done = start(tmp_path, cell, sets="deadlines.step=3 s")
    assert done.code == 0, done.said
    assert_without(done, cell.at, cell)


WRITTEN = [Cell(way, where="after", save=save) for way in ("live then live", "live then sst") for save in (0, 1, 4)]


@pytest.mark.parametrize("cell", long_table(WRITTEN, sample=1), ids=str)
def test_a_step_that_was_written_is_not_left_out(cell: Cell, tmp_path: Path) -> None:
    """It fails when the step is in its output: the next attempt begins after it, or else the run is stopped."""
    done = start(tmp_path, cell)
    if done.code == 0:
        skipped = done.report.stage("work").skipped
        assert skipped == [] or cell.way == "live then sst"
        assert_without(done, skipped, cell)
    else:
        assert cell.save, done.said
        assert "it failed at step 5, which it was to skip" in done.report.run.reason
        assert "step 5 cannot be skipped: stream result has its output already" in done.said


@pytest.mark.reliability
def test_without_the_rule_the_run_is_stopped(tmp_path: Path) -> None:
    done = start(tmp_path, Cell("live then live"), same="stop")
    assert done.code == 1
    assert "ended with exit code 1; it was not started again: it failed twice at step 5" in done.report.run.reason


SINKS = """
stages:
  sim: {{command: ["${{{{ wf.python }}}}", "{folder}/sim.py"], writes: {{field: {{}}}}}}
  work: {{component: relay}}
  keep:
    command: ["${{{{ wf.python }}}}", "{folder}/work.py", "{folder}/work.json", "{folder}/read"]
    reads: {{result: {{}}}}
    on_failure: {{do: restart, same_step: {same}, times: {times}, backoff: 0.1 s}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""


@pytest.mark.reliability
@pytest.mark.parametrize("way", ["live then sst", "live then live"])
def test_a_sink_leaves_it_out_too(way: str, tmp_path: Path) -> None:
    done = start(tmp_path, Cell(way, at=(5, 11)), text=SINKS)
    assert done.code == 0, done.said
    assert done.report.stage("keep").skipped == [5, 11]
    lines = (tmp_path / "read").read_text().splitlines()
    assert lines == [f"{step} {step}" for step in range(STEPS) if step not in (5, 11)]


LACKING = (
    SINKS.partition("  keep:")[0]
    + """  keep:
    component: archive
    with: {{path: kept.bp, variables: [extra]}}
    on_failure: {{do: restart, same_step: {same}, times: {times}, backoff: 0.1 s}}
streams:"""
    + SINKS.partition("streams:")[2]
)


@pytest.mark.reliability
@pytest.mark.parametrize("way", ["live then sst", "live then live"])
def test_an_archive_without_the_steps_that_lack_its_variable(way: str, tmp_path: Path) -> None:
    """Its file is appended to after what it holds, not after what it has read."""
    done = start(tmp_path, Cell(way), text=LACKING)
    assert done.code == 0, done.said
    assert read(done.folder / "kept.bp", "extra") == [step for step in range(STEPS) if step not in (5, 11)]
    assert done.report.stage("keep").skipped == [5, 11]


@pytest.mark.parametrize(
    "cell", long_table([Cell(way, save=n) for way in WAYS for n in (0, 3)], sample=1, seed=1), ids=str
)
def test_later_parts_of_the_run_leave_them_out_too(cell: Cell, tmp_path: Path) -> None:
    """The first part skips step 5 and ends at step 12, the second one skips step 15 and ends at step 18."""
    first = start(tmp_path, cell._replace(at=(5, 12)), times=2)
    assert first.code == 1, first.said
    assert first.report.stage("work").skipped == [5]
    set_failures(tmp_path, cell._replace(at=(5, 15, 18)))
    code, said = wf(tmp_path, "resume", str(first.folder), "--run-dir", str(tmp_path / "part2"), "-q")
    assert code == 1, said
    set_failures(tmp_path, cell._replace(at=(5, 15)))
    code, said = wf(tmp_path, "resume", str(first.folder), "--run-dir", str(tmp_path / "part3"), "-q")
    assert code == 0, said
    done = Done(code, said, tmp_path / "part3")
    assert_without(done, (5, 15), cell)
    assert done.report.stage("work").skipped == [5, 15]
    assert "work: step 15 was skipped: in an earlier part of the run" in done.report.warnings
