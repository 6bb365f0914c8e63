"""The component `statistics` against numpy, and after a kill -9."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from components.statistics.program import add, first_state
from tests.support.hurt_runs import HurtRun
from tests.support.pipelines import Done
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageStarted
from workflow.testing import ComponentRunFailed

if TYPE_CHECKING:
    from workflow.testing.pytest_plugin import RunComponent

pytest_plugins = ["workflow.testing.pytest_plugin"]


@pytest.mark.parametrize("steps", [1, 2, 30])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e8])
def test_one_pass_finds_what_numpy_finds_in_two(steps: int, seed: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    values, other = shift + random.normal(size=(steps, 5)), shift + random.normal(size=(steps, 5))
    state = first_state()
    for one, two in zip(values, other, strict=True):
        add(state, one, two)
    spread = 1 + shift * 1e-4
    np.testing.assert_allclose(state["mean"], values.mean(axis=0), rtol=1e-12, atol=1e-12 * spread)
    np.testing.assert_allclose(state["squares"] / steps, values.var(axis=0), rtol=1e-12 * spread, atol=1e-12 * spread)
    products = ((values - values.mean(axis=0)) * (other - other.mean(axis=0))).mean(axis=0)
    np.testing.assert_allclose(state["products"] / steps, products, rtol=1e-12 * spread, atol=1e-11 * spread)
    np.testing.assert_array_equal(state["min"], values.min(axis=0))
    np.testing.assert_array_equal(state["max"], values.max(axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_members_come_changes_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = 1.0 + random.normal(size=(400, 6))
    found = []
    for order in (np.arange(len(values)), random.permutation(len(values))):
        state = first_state()
        for place in order:
            add(state, values[place])
        found.append(state)
    for name in ("mean", "squares", "min", "max"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-12)


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_step_has_the_statistics_so_far(ranks: int, run_component: RunComponent) -> None:
    random = np.random.default_rng(1)
    u, v = random.normal(size=(6, 5, 4)), random.normal(size=(6, 5, 4))
    given = [{"U": one, "V": two} for one, two in zip(u, v, strict=True)]
    written = run_component(
        "statistics", reads={"input": given}, parameters={"variable": "U", "other": "V", "every": 2}, ranks=ranks
    )["statistics"]
    assert [int(step["number"]) for step in written] == [2, 4, 6]
    for step in written:
        some = slice(0, int(step["number"]))
        np.testing.assert_allclose(step["mean"], u[some].mean(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(step["variance"], u[some].var(axis=0), rtol=1e-12)
        np.testing.assert_array_equal(step["max"], u[some].max(axis=0))
        product = (u[some] - u[some].mean(axis=0)) * (v[some] - v[some].mean(axis=0))
        np.testing.assert_allclose(step["covariance"], product.mean(axis=0), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_step_alone_over_its_first_axis_whose_length_may_change(ranks: int, run_component: RunComponent) -> None:
    random = np.random.default_rng(2)
    given = [random.normal(size=(members, 5, 4)) for members in (3, 3, 2)]
    written = run_component(
        "statistics", reads={"input": [{"U": each} for each in given]}, ranks=ranks,
        parameters={"variable": "U", "across": True},
    )["statistics"]  # fmt: skip
    assert [int(step["number"]) for step in written] == [3, 3, 2]
    for step, values in zip(written, given, strict=True):
        np.testing.assert_allclose(step["mean"], values.mean(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(step["variance"], values.var(axis=0), rtol=1e-12)
        np.testing.assert_array_equal(step["max"], values.max(axis=0))
    (scalars,) = run_component(
        "statistics", reads={"input": [{"t": np.array([1.0, 4.0])}]}, parameters={"variable": "t", "across": True}
    )["statistics"]
    assert float(scalars["mean"]) == 2.5


def test_what_is_no_number_stays_so_and_other_elements_are_counted(run_component: RunComponent) -> None:
    given = [{"U": np.array([1.0, np.nan, 3.0])}, {"U": np.array([3.0, 1.0, 5.0])}]
    last = run_component("statistics", reads={"input": given}, parameters={"variable": "U"})["statistics"][-1]
    for name, values in (("mean", [2.0, 4.0]), ("min", [1.0, 3.0]), ("max", [3.0, 5.0]), ("variance", [1.0, 1.0])):
        assert np.isnan(last[name][1])
        assert last[name][[0, 2]].tolist() == values
    assert "covariance" not in last


def test_a_scalar_has_statistics_too(run_component: RunComponent) -> None:
    written = run_component("statistics", reads={"input": [{"t": 1.0}, {"t": 3.0}]}, parameters={"variable": "t"})
    assert float(written["statistics"][-1]["mean"]) == 2.0


def test_a_shape_that_changes_is_named(run_component: RunComponent) -> None:
    given = [{"U": np.zeros(3)}, {"U": np.zeros(4)}]
    with pytest.raises(ComponentRunFailed, match=r"step 1: \w+: its shape has changed from \(3,\) to \(4,\)"):
        run_component("statistics", reads={"input": given}, parameters={"variable": "U"})


PIPELINE = """
wf: 1
name: counted
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 150 s, stop: 2 s}}
stages:
  sim: {{component: gray_scott, with: {{size: [16], steps: 400, write_every: 10}}}}
  slow:
    command: ["${{{{ wf.python }}}}", "{folder}/slow.py"]
    reads: {{field: {{}}}}
    writes: {{slowed: {{}}}}
  stat: {{component: statistics, with: {{variable: V}}, on_failure: restart}}
  keep: {{component: archive, with: {{path: stat.bp}}}}
streams:
  field: {{from: sim, to: slow, via: bp5}}
  slowed: {{from: slow, to: stat, keep: true}}
  statistics: {{from: stat, to: keep, via: bp5}}
"""
SLOW = """
import time
from workflow import stage
with stage.open_reader("field") as fields, stage.open_writer("slowed") as out:
    for step in fields:
        with out.step():
            out.write("V", step.read("V"))
        time.sleep(0.05)
"""


def counted(folder: Path, kill_at: int | None) -> Done:
    folder.mkdir()
    run = HurtRun(folder, "counted")
    (folder / "slow.py").write_text(SLOW)
    (folder / "pipeline.yaml").write_text(PIPELINE.format(folder=folder))

    def kill(run_dir: Path, _: int) -> None:
        if kill_at is not None:
            wait_until(lambda: steps_done(run_dir, "stat") >= 2 * kill_at, f"step {kill_at} of stat")
            events = [each for each in read_events(run_dir) if isinstance(each, StageStarted)]
            os.kill(next(each.pid for each in events if each.stage == "stat"), signal.SIGKILL)

    done = run.go(kill)
    assert done.code == 0, done.said
    assert len(done.report.restarts) == (kill_at is not None)
    return done


def test_after_a_kill_the_statistics_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    whole, again = counted(tmp_path / "whole", None), counted(tmp_path / "again", 15)
    found = compare_runs(whole.folder / "stat.bp", again.folder / "stat.bp")
    assert found.identical, found
    assert found.files[0].steps == 41
