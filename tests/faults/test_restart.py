"""Analyses and sinks that are started again: whatever ends them, the data are those of an undisturbed run.

The pipeline is sim → work → keep. `work` or `keep` fails in its first attempts, as the component `faulty` of
tests/support does, or is ended from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.long_tables import long_table
from tests.support.pipelines import FAULTY, HOLDING, Done, run
from tests.support.reliability import FaultyCell, each_end, note_restart, ways
from workflow.compare.compare_runs import compare_runs
from workflow.formats.node_folder import folders_here

STEPS = 20
PIPELINE = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {steps}, compute_time: 20 ms}}}}
  work:
    component: {faulty}
    with: {{how: {how}, where: {where}, at: {at}, times: {times}, tokens: {tokens}}}
    on_failure: {{do: {do}, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""
# How the two streams go: the first one is kept in any case, or there is nothing to go on from.
WAYS = ways(
    "live then sst", "live then live", "live then after", "after then sst", "spool then sst", "spool then live",
    "live then shm", "shm, spool then shm", "shm, spool then live",
)  # fmt: skip
ON_NODE = ways("spool in memory then sst", "spool on the node then live", "shm, spool in memory then shm")


def cells(ways: Iterable[str]) -> list[FaultyCell]:
    """Each end at each place; and when nothing has been finished, or all but the last step."""
    moments = itertools.product(ways, ("before", "after"), (0, STEPS - 1))
    return each_end(ways) + [FaultyCell(way, "kill", where, at) for way, where, at in moments]


TABLE = [*long_table(cells(WAYS), sample=10), *long_table(cells(ON_NODE), sample=2, seed=19)]


def go(folder: Path, cell: FaultyCell, *, name: str, do: str = "restart", times: int = 1, sets: str = "") -> Done:
    first, second = (WAYS | ON_NODE)[cell.way]
    text = PIPELINE.format(
        steps=STEPS, faulty=FAULTY, how=cell.how, where=cell.where, at=cell.at, times=times, do=do,
        tokens=folder / "tokens", first=f"{first}", second=f"{second}",
    )  # fmt: skip
    return run(folder, text, *(["--set", sets] if sets else []), name=name)


def assert_like_undisturbed(folder: Path, done: Done, cell: FaultyCell) -> None:
    """The same data, each step once."""
    whole = go(folder, cell._replace(how="none"), name="whole")
    assert whole.code == 0, whole.said
    found = compare_runs(whole.folder, done.folder)
    assert found.identical, found
    files = [via for via in (WAYS | ON_NODE)[cell.way] if "bp5" in via or "auto" in via]
    assert len(found.files) > len(files), f"kept.bp, and the files of both streams: {found}"
    assert [done.report.stream(name).steps for name in ("field", "result")] == [STEPS, STEPS]


@pytest.mark.parametrize("cell", TABLE, ids=str)
def test_an_analysis_goes_on_where_it_was(cell: FaultyCell, tmp_path: Path) -> None:
    done = go(tmp_path, cell, name="run")
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert restart.stage == "work"
    assert restart.attempt == 2
    assert restart.first_step is not None
    wanted = {"start": 0, "close": STEPS}.get(cell.where, cell.at)
    assert wanted - 4 <= restart.first_step <= wanted + 1, restart
    assert not folders_here(done.folder), "a spool is left on the node"
    assert_like_undisturbed(tmp_path, done, cell)
    note_restart(tmp_path, cell, restart)


@pytest.mark.parametrize("where", ["before", "inside"])
def test_a_crash_that_comes_back_is_named(where: str, tmp_path: Path) -> None:
    done = go(tmp_path, FaultyCell("live then live", "exit1", where), name="run", times=99)
    assert done.code == 1
    assert done.report.run.stage == "work"
    assert "ended with exit code 1; it was not started again: it failed twice at step 5" in done.report.run.reason
    assert len(done.report.restarts) == 1


def test_several_failures_in_one_run(tmp_path: Path) -> None:
    cell = FaultyCell("live then sst", "kill", "before")
    done = go(tmp_path, cell, name="run", times=3)
    assert done.code == 0, done.said
    assert [restart.attempt for restart in done.report.restarts] == [2, 3, 4]
    assert_like_undisturbed(tmp_path, done, cell)


def test_stop_is_the_default(tmp_path: Path) -> None:
    done = go(tmp_path, FaultyCell("live then live", "kill", "after"), name="run", do="stop")
    assert done.code == 1
    assert done.report.run.stage == "work"
    assert done.report.restarts == []


@pytest.mark.parametrize("via", ["sst, transport: tcp", "shm", "bp5, coupling: live"])
@pytest.mark.parametrize("fail", ["kill", "raise", "early"])
def test_what_may_be_ignored_ends_nothing(fail: str, via: str, tmp_path: Path) -> None:
    text = f"""
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {STEPS}, compute_time: 20 ms}}}}
  side: {{component: {HOLDING}, with: {{at: 3, fail: {fail}}}, on_failure: ignore}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: [side, keep], via: {via}}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    assert done.report.stage("side").state == "failed"
    assert done.report.stage("keep").steps_in == STEPS
    (warning,) = done.report.warnings
    assert warning.startswith("side ")
    assert warning.endswith("the others went on without it (`on_failure: ignore`)")


@pytest.mark.parametrize("how", ["stop", "hang"])
def test_a_hang_beyond_its_deadline_is_a_failure(how: str, tmp_path: Path) -> None:
    cell = FaultyCell("live then live", how, "after")
    done = go(tmp_path, cell, name="run", sets="deadlines.step=3 s")
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert "no step for 3" in restart.reason
    assert_like_undisturbed(tmp_path, done, cell)
