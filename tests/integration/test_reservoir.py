"""The component `reservoir`: its batches are of steps that have come, on any number of ranks, and after a kill -9."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.hurt_runs import HurtRun, newest_pid
from tests.support.pipelines import TIMEOUT_S, Done, start
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs
from workflow.formats.kept_state import read_states
from workflow.stage import Reservoir
from workflow.testing import ComponentRunFailed, StepData

if TYPE_CHECKING:
    from workflow.testing.pytest_plugin import RunComponent

pytest_plugins = ["workflow.testing.pytest_plugin"]


def given(steps: int) -> list[StepData]:
    return [
        StepData({"V": np.full((5, 3), float(step)), "t": 0.5 * step}, attributes={"V/unit": "m"})
        for step in range(steps)
    ]


@pytest.mark.parametrize("ranks", [1, 2])
def test_batches_are_of_steps_that_have_come(ranks: int, run_component: RunComponent) -> None:
    parameters = {"variables": ["V", "t"], "size": 10, "watermark": 4, "batch": 3, "seed": 7}
    found = run_component("reservoir", reads={"input": given(40)}, parameters=parameters, ranks=ranks)["batches"]
    assert len(found) == 40 - 3
    for number, batch in enumerate(found):
        steps = batch["sample_steps"]
        assert len({*steps.tolist()}) == 3
        assert steps.max() <= number + 3
        assert batch["V"].shape == (3, 5, 3)
        np.testing.assert_array_equal(batch["V"], np.broadcast_to(steps[:, None, None], (3, 5, 3)))
        np.testing.assert_array_equal(batch["t"], 0.5 * steps)
        assert batch.attributes["V/unit"] == "m"
    # On any number of ranks the same ones.
    alone, expected = Reservoir(10, 4, seed=7), list[list[int]]()
    for step in range(40):
        alone.put(n=step)
        if alone.is_ready:
            expected.append(alone.draw(3)["n"].tolist())
    assert [batch["sample_steps"].tolist() for batch in found] == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"watermark": 4}, "reservoir: batch ≤ watermark ≤ size is needed, but these are 8, 4, 64"),
        ({"variables": ["sample_steps"]}, "a variable cannot be called sample_steps"),
    ],
)
def test_what_cannot_be_is_refused(parameters: dict[str, object], message: str, run_component: RunComponent) -> None:
    steps = [{"V": np.zeros(3), "sample_steps": 1}]
    with pytest.raises(ComponentRunFailed, match=message):
        run_component("reservoir", reads={"input": steps}, parameters={"variables": ["V"], **parameters})


def test_a_shape_that_changes_is_named(run_component: RunComponent) -> None:
    steps = [{"V": np.zeros(3)}, {"V": np.zeros(4)}]
    with pytest.raises(ComponentRunFailed, match=r"reservoir: step 1: V: its shape has changed from \(3,\) to \(4,\)"):
        run_component("reservoir", reads={"input": steps}, parameters={"variables": ["V"]})


PIPELINE = """
wf: 1
name: drawn
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 150 s, stop: 2 s}}
stages:
  sim: {{component: synthetic, with: {{grid_points: 100, particles: 0, steps: 60, compute_time: 30 ms}}}}
  draw:
    component: reservoir
    with: {{variables: [grid, step], size: 16, watermark: 8, batch: 4, seed: 3}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: drawn.bp}}}}
streams:
  field: {{from: sim, to: draw, via: {first}}}
  batches: {{from: draw, to: keep, via: {second}}}
"""


def drawn(folder: Path, kills: list[int], first: str = "bp5, coupling: live", second: str = "bp5") -> Done:
    folder.mkdir()
    run = HurtRun(folder, "drawn")
    (folder / "pipeline.yaml").write_text(PIPELINE.format(first=first, second=second))

    def kill(run_dir: Path, _: int) -> None:
        before = None
        for at in kills:
            # Each step that is read, and most of those that are written, have a line.
            wait_until(lambda at=at: steps_done(run_dir, "draw") >= 2 * at, f"step {at} of draw")  # type: ignore[misc]
            pid = newest_pid(run_dir, "draw")
            assert pid is not None and pid != before
            os.kill(pid, signal.SIGKILL)
            before = pid

    done = run.go(kill)
    assert done.code == 0, done.said
    assert len(done.report.restarts) == len(kills)
    return done


@pytest.mark.parametrize("way", [("bp5, coupling: live", "bp5"), ("sst, keep: true", "sst")], ids=" then ".join)
def test_after_a_kill_the_batches_are_those_of_an_undisturbed_run(way: tuple[str, str], tmp_path: Path) -> None:
    whole, again = drawn(tmp_path / "whole", []), drawn(tmp_path / "again", [21], *way)
    found = compare_runs(whole.folder / "drawn.bp", again.folder / "drawn.bp")
    assert found.identical, found
    assert found.files[0].steps == 60 - 7


def test_the_state_of_a_stop_has_all_steps(tmp_path: Path) -> None:
    """However few are new since the last one."""
    run = HurtRun(tmp_path, "drawn")
    text = PIPELINE.format(first="bp5, coupling: live", second="sst").replace("steps: 60", "steps: 4000")
    (tmp_path / "pipeline.yaml").write_text(text.replace("size: 16", "size: 200"))

    def cancel(run_dir: Path, _: int) -> None:
        wait_until(lambda: steps_done(run_dir, "draw") >= 2 * 90, "step 90 of draw")
        cancelling = start(tmp_path, "-m", "workflow.cli", "cancel", str(run_dir))
        answer = cancelling.communicate(timeout=TIMEOUT_S)[0]
        assert cancelling.returncode == 0, answer

    done = run.go(cancel)
    (newest, *_) = read_states(done.folder / "stages/draw/state")
    assert newest.steps["field"] == done.report.stream("field").steps, done.said
