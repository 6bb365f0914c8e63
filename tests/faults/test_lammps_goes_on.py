"""The component `lammps` goes on from its own restart files: its atoms are those of an undisturbed run, bit for bit."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.hurt_runs import HurtRun, at_step
from tests.support.pipelines import run
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs

STEPS = 31
PIPELINE = """
wf: 1
name: goes-on
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 150 s, stop: 2 s}}
stages:
  sim:
    component: lammps
    ranks: {ranks}
    with: {{cells: [4, 4, 14], variables: ["equilibrate=20", "piston=8"], run_steps: 600, dump_every: 20}}
    checkpoint: {{every: {every}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  atoms: {{from: sim, to: keep, via: {via}}}
"""


@dataclass
class ShockRun(HurtRun):
    """sim → keep. `way`: how `atoms` goes; `every`: how often the state is saved."""

    ranks: int = 1
    every: str = "1 ms"

    def write(self) -> None:
        text = PIPELINE.format(ranks=self.ranks, every=self.every, via=self.way)
        (self.folder / "pipeline.yaml").write_text(text)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Ranks → the file of a run in which no state was saved."""
    found = {}
    for ranks in (1, 2):
        whole = ShockRun(tmp_path_factory.mktemp("whole"), "sst", ranks=ranks, every="1 h")
        whole.write()
        done = whole.go()
        assert done.code == 0, done.said
        found[ranks] = done.folder / "kept.bp"
    return found


@pytest.mark.parametrize(("via", "ranks"), [("sst", 1), ("sst", 2), ("bp5, coupling: live", 2)])
def test_a_simulation_that_is_killed_goes_on(
    via: str, ranks: int, undisturbed: dict[int, Path], tmp_path: Path
) -> None:
    hurt = ShockRun(tmp_path, via, ranks=ranks)
    hurt.write()

    def kill(run_dir: Path, pid: int) -> None:  # noqa: ARG001
        at_step(run_dir, 9)
        hurt.signal(run_dir, "sim", signal.SIGKILL)

    done = hurt.go(kill)
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert restart.stage == "sim"
    assert done.report.stream("atoms").steps == STEPS
    found = compare_runs(undisturbed[ranks], done.folder / "kept.bp")
    assert found.identical, found
    log = (done.folder / "stages/sim/work/log.lammps").read_text()
    assert "read_restart" in log and "create_atoms" in log, "the log of the first attempt is still there"


def test_a_run_of_which_everything_was_killed_goes_on(undisturbed: dict[int, Path], tmp_path: Path) -> None:
    """However often it is saved: that does not change the trajectory."""
    hurt = ShockRun(tmp_path, "sst", ranks=2, every="0.2 s")
    hurt.write()

    def kill(run_dir: Path, pid: int) -> None:
        at_step(run_dir, 15)
        hurt.end_all(run_dir, pid)

    hurt.go(kill)
    done = hurt.go()
    assert done.code == 0, done.said
    assert 0 < (done.report.stage("keep").steps_in or 0) < STEPS
    found = compare_runs(undisturbed[2], done.folder / "kept.bp")
    assert found.identical, found


def test_a_script_of_ones_own_needs_one_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in.own").write_text("units metal\n")
    sim = "sim: {component: lammps, with: {script: in.own}, checkpoint: {every: 1 s}}"
    done = run(
        tmp_path, f'stages: {{{sim}, keep: {{component: "null"}}}}\nstreams: {{atoms: {{from: sim, to: keep}}}}\n'
    )
    assert done.code == 1
    assert "add the parameter `restart_script`, or remove `checkpoint`" in done.said


def test_a_script_that_does_not_read_the_restart_file_is_named(tmp_path: Path) -> None:
    hurt = ShockRun(tmp_path, "sst")
    hurt.write()
    (tmp_path / "in.wrong").write_text("units metal\n")
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("with: {cells", "with: {restart_script: in.wrong, cells"))

    def kill(run_dir: Path, pid: int) -> None:
        at_step(run_dir, 6)
        wait_until(lambda: steps_done(run_dir, "keep") >= 6, "some steps of keep")
        hurt.end_all(run_dir, pid)

    hurt.go(kill)
    done = hurt.go()
    assert done.code == 1
    assert "in.wrong creates no simulation box; it must have `read_restart ${restart}`" in done.said
