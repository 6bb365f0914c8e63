"""The component `plot` in a second attempt, and in a next part: its pictures are those of an undisturbed run."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.hurt_runs import HurtRun, at_step
from tests.support.pipelines import Done
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until

STEPS = 14
PIPELINE = """
wf: 1
name: drawn
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 150 s, stop: 2 s}}
stages:
  sim:
    component: gray_scott
    with: {{size: [1, 16, 16], steps: {last}, write_every: 10}}
    checkpoint: {{every: 1 ms}}
  slow:
    command: ["${{{{ wf.python }}}}", "{folder}/slow.py"]
    reads: {{field: {{}}}}
    writes: {{slowed: {{}}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  look:
    component: plot
    with: {{panels: [V, mean, row], frames: {frames}, picture: summary.png, frames_dir: frames}}
    {look}
streams:
  field: {{from: sim, to: slow, via: bp5, coupling: live}}
  slowed: {{from: slow, to: look, via: {via}}}
"""
# It sends an image, a scalar and a line, and takes its time.
SLOW = """
import time
from workflow import stage
with stage.open_reader("field") as fields, stage.open_writer("slowed") as out:
    for step in fields:
        values = step.read("V")[0]
        with out.step():
            out.write("V", values)
            out.write("mean", float(values.mean()))
            out.write("row", values[8] * (1 + step.index))
        time.sleep(0.1)
"""
RESTART, CHECKPOINT = "on_failure: {do: restart, backoff: 0.1 s}", "checkpoint: {every: 1 ms}"


@dataclass
class DrawnRun(HurtRun):
    """sim → slow → look. `way`: how `slowed` goes; `look`: what stands in that stage besides; `frames`: a picture of
    each step, too."""

    look: str = RESTART
    frames: bool = False

    def write(self) -> None:
        (self.folder / "slow.py").write_text(SLOW)
        text = PIPELINE.format(
            folder=self.folder, last=10 * (STEPS - 1), via=self.way, look=self.look,
            frames=str(self.frames).lower(),
        )  # fmt: skip
        (self.folder / "pipeline.yaml").write_text(text)


def pictures(done: Done) -> dict[str, bytes]:
    assert done.code == 0, done.said
    files = [done.folder / "summary.png", *sorted(done.folder.glob("frames/*"))]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run = DrawnRun(tmp_path_factory.mktemp("whole"), "sst", frames=True)
    run.write()
    found = pictures(run.go())
    assert len(found) == STEPS + 1
    return found


@pytest.mark.parametrize("via", ["sst, keep: true", "sst", "bp5, coupling: live"])
def test_a_plot_that_is_killed_goes_on(via: str, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    run = DrawnRun(tmp_path, via, frames="spool" in via)
    run.write()

    def kill(run_dir: Path, pid: int) -> None:  # noqa: ARG001
        wait_until(lambda: steps_done(run_dir, "look") >= 10, "a step of look at which it has not saved its state")
        run.signal(run_dir, "look", signal.SIGKILL)

    done = run.go(kill)
    found = pictures(done)
    assert found == (undisturbed if run.frames else {"summary.png": undisturbed["summary.png"]})
    (restart,) = done.report.restarts
    assert restart.stage == "look"
    assert restart.first_step is not None
    # Where its writer is started again as well, it goes back to what both can give.
    assert restart.first_step >= (4 if via == "sst" else 8)


def test_a_plot_goes_on_in_the_next_part(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    run = DrawnRun(tmp_path, "sst", look=CHECKPOINT)
    run.write()

    def kill(run_dir: Path, pid: int) -> None:
        wait_until(lambda: steps_done(run_dir, "look") >= 6, "some steps of look")
        run.end_all(run_dir, pid)

    run.go(kill)
    done = run.go()
    assert pictures(done) == {"summary.png": undisturbed["summary.png"]}
    assert 0 < (done.report.stage("look").steps_in or 0) <= STEPS - 4


def test_a_plot_that_may_fail_takes_nobody_back(tmp_path: Path) -> None:
    """It saves nothing, and draws what comes."""
    run = DrawnRun(tmp_path, "sst", look="on_failure: ignore")
    run.write()

    def kill(run_dir: Path, pid: int) -> None:
        at_step(run_dir, 9)
        wait_until(lambda: steps_done(run_dir, "slow") >= 6, "some steps of slow")
        run.end_all(run_dir, pid)

    run.go(kill)
    done = run.go()
    assert done.code == 0, done.said
    for name in ("slow", "look"):
        assert done.report.stage(name).state == "succeeded", done.said
        assert 0 < (done.report.stage(name).steps_in or 0) < STEPS
