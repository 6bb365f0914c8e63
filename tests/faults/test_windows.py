"""Analyses with windows that are killed: what they write is that of an undisturbed run.

The pipeline is sim → work → keep. What `work` writes of a step depends on the last five.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.pipelines import Done, run
from tests.support.resumed_runs import first_step, wf
from workflow.compare.compare_runs import compare_runs
from workflow.stage import open_reader

STEPS, LENGTH = 24, 5
PROGRAM = """
import os, signal, sys
from pathlib import Path
import numpy as np
from workflow import stage
mode, tokens, at = sys.argv[1], Path(sys.argv[2]), [int(each) for each in sys.argv[3:]]
tokens.mkdir(exist_ok=True)
rows = lambda shape: stage.block_of(shape, (stage.size(), *(1 for _ in shape[1:])))
with stage.open_reader("field") as fields, stage.open_writer("result") as result:
    state = stage.State(sum=0.0) if mode == "own" else None
    for window in fields.window(5, {"V": rows}):
        values = window.read("V")
        shape, (start, _) = window.step.shape("V"), window.box("V")
        if state is not None:
            state["sum"] += float(window.step.read("V").sum())
        with result.step():
            result.write("steps", np.array(window.steps))
            result.write("last", values, shape=(len(window), *shape), start=(0, *start))
            result.write("sum", 0.0 if state is None else state["sum"])
        if state is not None and window.step.index % 3 == 2:
            state.save()
        done = len(list(tokens.iterdir()))
        if stage.rank() == 0 and done < len(at) and window.step.index == at[done]:
            (tokens / str(done)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""
PIPELINE = """
stages:
  sim:
    component: gray_scott
    with: {{size: [1, 6, 8], steps: {last}, write_every: 1}}
    {sim}
  work:
    command: ["${{{{ wf.python }}}}", "{folder}/work.py", {mode}, "{folder}/tokens-{name}", {at}]
    ranks: {ranks}
    reads: {{field: {{}}}}
    writes: {{result: {{}}}}
    {work}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""
WAYS = {
    "live then live": ("bp5, coupling: live", "bp5, coupling: live"),
    "spool then sst": ("sst, transport: tcp, keep: true", "sst, transport: tcp"),
    # The spool removes steps that a second attempt has seen, and needs in its windows.
    "short spool then live": ("sst, transport: tcp, keep: {steps: 2}", "bp5, coupling: live"),
    # Nothing is kept: the simulation is started again as well.
    "sst then sst": ("sst, transport: tcp", "sst, transport: tcp"),
    "shm then shm": ("shm", "shm"),
}
RULE = "on_failure: {do: restart, times: 5, backoff: 0.1 s}"


def go(
    folder: Path, way: str, *at: int, mode: str = "none", ranks: int = 1, name: str = "run", saves: bool = False
) -> Done:
    """The run. `saves`: it is not started again, but its states are saved for a part that goes on."""
    (folder / "work.py").write_text(PROGRAM)
    first, second = WAYS[way]
    work = "checkpoint: {every: 1 ms}" if saves else RULE
    sim = work if way in ("sst then sst", "shm then shm") else ""
    text = PIPELINE.format(
        folder=folder, last=STEPS - 1, mode=mode, at=", ".join(map(str, at)), ranks=ranks, first=first, second=second,
        name=name, sim=sim, work=work,
    )  # fmt: skip
    done = run(folder, text.replace(", ]", "]"), name=name)
    assert done.code == (1 if saves else 0), done.said
    return done


def assert_whole(folder: Path, done: Done, mode: str = "none", failures: int = 1) -> None:
    assert len(done.report.restarts) >= failures
    whole = go(folder, "live then live", mode=mode, name="whole")
    found = compare_runs(whole.folder / "kept.bp", done.folder / "kept.bp")
    assert found.identical, found
    assert found.files[0].steps == STEPS
    with open_reader(path=done.folder / "kept.bp") as kept:
        for step in kept:
            first = max(0, step.index + 1 - LENGTH)
            assert step.read("steps").tolist() == list(range(first, step.index + 1))
            assert len(np.unique(step.read("last").reshape(step.index + 1 - first, -1)[:, 0])) > 1 or step.index == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["none", "own"])
def test_after_a_kill_the_windows_are_those_of_an_undisturbed_run(way: str, mode: str, tmp_path: Path) -> None:
    assert_whole(tmp_path, go(tmp_path, way, 13, mode=mode), mode)


def test_killed_in_the_first_windows_and_several_times(tmp_path: Path) -> None:
    assert_whole(tmp_path, go(tmp_path, "spool then sst", 0, 2, 12, 20), failures=4)


def test_each_rank_has_its_block(tmp_path: Path) -> None:
    assert_whole(tmp_path, go(tmp_path, "live then live", 13, ranks=2))


@pytest.mark.parametrize("mode", ["none", "own"])
@pytest.mark.parametrize("way", ["live then live", "sst then sst", "shm then shm"])
def test_a_part_that_goes_on_has_the_windows_of_one_run(way: str, mode: str, tmp_path: Path) -> None:
    first = go(tmp_path, way, 13, mode=mode, saves=True)
    code, said = wf(tmp_path, "resume", str(first.folder), "--run-dir", str(tmp_path / "part2"))
    assert code == 0, said
    done = Done(code, said, tmp_path / "part2")
    assert first_step(done, "work") > 0
    assert_whole(tmp_path, done, mode, failures=0)


def test_a_window_of_its_own_is_saved_as_often_as_it_is_new(tmp_path: Path) -> None:
    done = go(tmp_path, "live then live", 13)
    (restart,) = done.report.restarts
    assert (restart.first_step, restart.replayed) == (10, 3)
