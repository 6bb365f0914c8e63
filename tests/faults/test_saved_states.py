"""Analyses that add up over their steps and save their state: after a failure the data are those of an undisturbed run.

The pipeline is sim → work → keep. `work` is the component `adding` of tests/support.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import ROOT, Done, run
from workflow.compare.compare_runs import compare_runs

ADDING = ROOT / "tests/support/adding"
STEPS = 20
PIPELINE = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {steps}, compute_time: 20 ms}}}}
  work:
    component: {adding}
    ranks: {ranks}
    with: {{at: {at}, save_every: {save}, write_every: {write}, damage: {damage}, tokens: {tokens}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""
SST = "sst, transport: tcp"
LIVE, SPOOL = ("bp5, coupling: live", "bp5, coupling: live"), (f"{SST}, keep: true", SST)


def go(
    folder: Path,
    *at: int,
    way: tuple[str, str] = LIVE,
    save: int = 1,
    write: int = 1,
    ranks: int = 1,
    damage: str = "none",
    name: str = "run",
) -> Done:
    text = PIPELINE.format(
        steps=STEPS, adding=ADDING, at=[*at], save=save, write=write, ranks=ranks, damage=damage,
        tokens=folder / f"tokens-{name}", first=way[0], second=way[1],
    )  # fmt: skip
    return run(folder, text, name=name)


def first_steps(done: Done) -> list[int | None]:
    return [restart.first_step for restart in done.report.restarts]


def assert_like_undisturbed(folder: Path, done: Done, way: tuple[str, str] = LIVE, *, write: int = 1) -> None:
    assert done.code == 0, done.said
    whole = go(folder, way=way, write=write, name="whole")
    assert whole.code == 0, whole.said
    found = compare_runs(whole.folder / "kept.bp", done.folder / "kept.bp")
    assert found.identical, found
    assert found.files[0].steps == STEPS // write
    assert [done.report.stream(name).steps for name in ("field", "result")] == [STEPS, STEPS // write]


@pytest.mark.parametrize(
    "way",
    [LIVE, SPOOL, (LIVE[0], SST), ("shm, keep: true", "shm"), (SPOOL[0], "bp5, coupling: after")],
    ids=" then ".join,
)
def test_a_sum_goes_on_where_it_was_saved(way: tuple[str, str], tmp_path: Path) -> None:
    done = go(tmp_path, 7, way=way)
    assert_like_undisturbed(tmp_path, done, way)
    (first,) = first_steps(done)
    assert first == 8 if "bp5" in way[1] else first is not None and 3 <= first <= 8


@pytest.mark.parametrize("way", [LIVE, SPOOL], ids=" then ".join)
def test_between_two_saves_the_steps_since_are_done_again_and_written_once(
    way: tuple[str, str], tmp_path: Path
) -> None:
    done = go(tmp_path, 13, way=way, save=5)
    assert_like_undisturbed(tmp_path, done, way)
    assert first_steps(done)[0] in ((10,) if way is LIVE else (5, 10))


def test_several_failures_in_one_run(tmp_path: Path) -> None:
    done = go(tmp_path, 6, 9, 14, save=2)
    assert_like_undisturbed(tmp_path, done)
    assert first_steps(done) == [6, 10, 14]


def test_one_step_written_for_several_read(tmp_path: Path) -> None:
    done = go(tmp_path, 13, save=3, write=5)
    assert_like_undisturbed(tmp_path, done, write=5)
    assert first_steps(done) == [12]


@pytest.mark.parametrize("way", [LIVE, SPOOL], ids=" then ".join)
def test_each_rank_has_its_own(way: tuple[str, str], tmp_path: Path) -> None:
    done = go(tmp_path, 7, way=way, ranks=2, save=4)
    assert_like_undisturbed(tmp_path, done, way)
    assert first_steps(done)[0] in ((8,) if way is LIVE else (4, 8))


@pytest.mark.parametrize("damage", ["truncate", "flip", "record"])
def test_of_a_damaged_state_the_one_before_is_taken(damage: str, tmp_path: Path) -> None:
    done = go(tmp_path, 13, save=5, damage=damage)
    assert_like_undisturbed(tmp_path, done)
    assert first_steps(done) == [5]


def test_without_a_state_it_begins_at_the_first_step(tmp_path: Path) -> None:
    done = go(tmp_path, 7, save=0)
    assert_like_undisturbed(tmp_path, done)
    assert first_steps(done) == [0]
    said = (done.folder / "stages/work/attempt-2/stderr.log").read_text()
    assert "there is no saved state that can be used: it begins at the first step" in said


def test_few_states_stay_on_disk(tmp_path: Path) -> None:
    done = go(tmp_path)
    assert len(list((done.folder / "stages/work/state").glob("*.json"))) == 5
    assert len(list((done.folder / "stages/work/state").glob("*.npz"))) == 5


# Each value depends on all steps before; it ends itself, once, at the step given.
SIMULATION = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from workflow import stage
at, token, saves = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "saves"
with stage.open_writer("field") as out:
    values = np.arange(100.0)
    state = stage.State(step=0, values=values) if saves else None
    first = state["step"] if state else 0
    values = state["values"] if state else values
    for step in range(first, 20):
        if state and step % 3 == 0:
            state.save(step=step, values=values)
        if step == at and not token.exists():
            token.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with out.step():
            out.write("x", values)
        values = np.cos(values + step)
        time.sleep(0.05)
"""
RESTARTED = """
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", {at}, "{folder}/token-{name}", {saves}]
    writes: {{field: {{}}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: keep, via: {via}}}
"""


def simulate(folder: Path, via: str, at: int, saves: str = "saves", name: str = "run") -> Done:
    (folder / "sim.py").write_text(SIMULATION)
    return run(folder, RESTARTED.format(folder=folder, via=via, at=at, name=name, saves=saves), name=name)


@pytest.mark.parametrize("via", [SST, "shm", "bp5, coupling: live", "bp5"])
@pytest.mark.parametrize("saves", ["saves", "saves-nothing"])
def test_a_simulation_goes_on_from_its_state_or_drops_what_it_computes_again(
    via: str, saves: str, tmp_path: Path
) -> None:
    done = simulate(tmp_path, via, 11, saves)
    assert done.code == 0, done.said
    assert len(done.report.restarts) == 1
    whole = simulate(tmp_path, via, -1, name="whole")
    assert whole.code == 0, whole.said
    found = compare_runs(whole.folder / "kept.bp", done.folder / "kept.bp")
    assert found.identical, found
    assert found.files[0].steps == 20
