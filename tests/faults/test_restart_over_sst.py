"""Stages that are started again behind streams of SST that discard steps, or that go over UCX.

The pipeline is sim → work → keep; `work` is the component `faulty` of tests/support. What a full queue discards nobody
gets: of the rest, which the spool holds, each step is in the result once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import adios2
import numpy as np
import pytest

from tests.support.long_tables import long_table
from tests.support.packed_runs import MPI_PYTHON
from tests.support.pipelines import FAULTY, Done, run
from tests.support.reliability import ENDS, FaultyCell, each_end, note_restart, ways
from tests.support.ucx_here import UCX_WORKS
from workflow.compare.compare_runs import compare_runs
from workflow.report.report_model import RestartPart

PIPELINE = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {steps}, compute_time: {compute}}}}}
  work:
    component: {faulty}
    with: {{how: {how}, where: {where}, at: {at}, tokens: {tokens}, pause: {pause}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""
DISCARDING = ways("discard, spool then sst", "discard, spool then live", "shm, discard, spool then shm")
OVER_UCX = ways("ucx, spool then ucx")
# A step of the simulation is made while `work` is at another one: of three or four steps one is read.
FAST, UNHURRIED = ("10 ms", 80), ("20 ms", 20)


def table(ways: Iterable[str], ends: Iterable[str]) -> list[FaultyCell]:
    return each_end(ways, ends) + [FaultyCell(way, "kill", "before", 0) for way in ways]


def go(folder: Path, cell: FaultyCell, name: str = "run", python: str = "") -> Done:
    (first, second), discards = {**DISCARDING, **OVER_UCX}[cell.way], cell.way in DISCARDING
    compute, steps = FAST if discards else UNHURRIED
    text = PIPELINE.format(
        steps=steps, compute=compute, pause="30 ms" if discards else "0 s", faulty=FAULTY, how=cell.how,
        where=cell.where, at=cell.at, tokens=folder / "tokens", first=first, second=second,
    )  # fmt: skip
    return run(folder, text, name=name, **({"python": python} if python else {}))


def goes_on(done: Done, cell: FaultyCell) -> RestartPart:
    """Check that `work` was started again where it was, and note the cell, which is equal."""
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert restart.stage == "work"
    assert restart.first_step is not None
    if cell.where not in ("start", "close"):
        assert cell.at - 4 <= restart.first_step <= cell.at + 1, restart
    return restart


def first_values(path: Path, variable: str) -> list[float]:
    """The first element of a variable in each step."""
    with adios2.FileReader(str(path)) as file:
        return [float(np.ravel(file.read(variable, step_selection=[n, 1]))[0]) for n in range(file.num_steps())]


@pytest.mark.parametrize("cell", long_table(table(DISCARDING, ENDS), sample=1), ids=str)
def test_behind_a_stream_that_discards_the_result_is_that_of_the_spool(cell: FaultyCell, tmp_path: Path) -> None:
    done = go(tmp_path, cell)
    restart = goes_on(done, cell)
    spooled = first_values(done.folder / "streams/field-spool.bp", "grid")
    assert first_values(done.folder / "kept.bp", "index") == [*range(len(spooled))]
    assert first_values(done.folder / "kept.bp", "y") == [2 * each - spooled[0] for each in spooled]
    # Without a reader that takes its time nothing is discarded.
    assert len(spooled) < FAST[1] or cell.where == "start" or cell.at == 0, spooled
    note_restart(tmp_path, cell, restart)


if UCX_WORKS:

    @pytest.mark.parametrize("cell", long_table(table(OVER_UCX, ("kill", "exit1", "segv")), sample=1), ids=str)
    def test_over_ucx_the_data_are_those_of_an_undisturbed_run(cell: FaultyCell, tmp_path: Path) -> None:
        if not MPI_PYTHON:
            pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
        done = go(tmp_path, cell, python=MPI_PYTHON)
        restart = goes_on(done, cell)
        whole = go(tmp_path, cell._replace(how="none"), "whole", MPI_PYTHON)
        assert whole.code == 0, whole.said
        found = compare_runs(whole.folder, done.folder)
        assert found.identical, found
        assert [done.report.stream(name).steps for name in ("field", "result")] == [UNHURRIED[1]] * 2
        assert {each.transport for each in done.report.streams if each.engine == "SST"} == {"ucx"}
        note_restart(tmp_path, cell, restart)
