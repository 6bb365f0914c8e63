"""What the next run of `wf balance` is expected to take, and how many fit into node-hours."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow.api.balances import BalanceRequest, BalanceSearch, balance_pipeline
from workflow.balance.balance_model import ProbeRecord
from workflow.balance.probe_costs import RunCost, expected_wall_s, runs_that_fit
from workflow.balance.probe_runs import note_probe
from workflow.campaign.execution import driver_lease


def test_the_next_run_is_its_steps_and_what_runs_take_besides() -> None:
    ran = [RunCost(5.0, 1, 24, 0.1), RunCost(4.0, 2, 10, 0.2), RunCost(1.5, 1, 3, None)]
    # Besides their steps they took 2.6 s and 2 s.
    assert expected_wall_s(ran, 100, 0.03) == pytest.approx(2.6 + 3.0)
    # A program that cannot be shortened has as many steps as before.
    assert expected_wall_s(ran, None, 0.5) == pytest.approx(2.6 + 12.0)
    assert expected_wall_s([RunCost(7.0, 1, 0, None), RunCost(3.0, 1, 0, None)], 24, 1.0) == 7.0


def test_the_nodes_of_the_next_run_count_and_so_does_each_run_that_was_started() -> None:
    ran = [RunCost(10.0, 1, 24, 0.1), RunCost(1.0, 1, 2, None)]
    # 36 node-seconds, of which 11 are spent; the mean of the past would let two more of 4 nodes run.
    assert runs_that_fit(0.01, ran, next_node_s=4 * 10.0) == 0
    assert runs_that_fit(0.01, ran, next_node_s=12.0) == 2
    assert runs_that_fit(0.01, ran, next_node_s=12.6) == 1
    assert runs_that_fit(0.001, ran, next_node_s=1.0) == 0


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its name in the current folder."""
    monkeypatch.chdir(tmp_path)
    stages = "stages:\n  sim: {component: synthetic, with: {bytes: 8000, steps: 400}}\n  see: {component: 'null'}\n"
    streams = "streams:\n  data: {from: sim, to: see}\n"
    (tmp_path / "pipeline.yaml").write_text("wf: 1\nname: held\noversubscribe: true\n" + stages + streams)
    return "pipeline.yaml"


def test_runs_of_a_search_that_ended_just_before_this_one_count(
    pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = BalanceRequest(pipeline, probes=1)
    key = BalanceSearch(request)._key(0)

    @contextlib.contextmanager
    def late_lease(directory: Path, _of: str) -> Iterator[None]:
        note_probe(directory, ProbeRecord(key=key, settings={}, run="a", steps=24, pace_s=0.1, span_s=0.1, wall_s=5.0))
        yield

    monkeypatch.setattr(driver_lease, "driver_lease", late_lease)
    assert balance_pipeline(request)[0].probes == 1
    assert not (tmp_path / "balance/held/runs").exists()


def test_the_search_stops_before_a_candidate_whose_nodes_do_not_fit(pipeline: str) -> None:
    vary = {"stages.sim.with.compute_time": ["2 ms"]}
    request = BalanceRequest(pipeline, node_hours=0.01, vary=vary, fixed=["streams.data.via"])  # 36 node-seconds
    search = BalanceSearch(request)
    assert search._runs_left() == 30  # the first one always starts
    probe = ProbeRecord(key="", settings={}, run="gone", steps=24, pace_s=0.1, span_s=0.1, wall_s=5.0)
    search.started = [(0, probe)] * 2
    search._learn()
    number = search.standing.next
    assert number == 1
    on_one_node = search._runs_left()
    assert 1 < on_one_node <= 8  # of 26 node-seconds
    candidate = search.space.candidates[number]
    # The time of a run that does not count is spent as well.
    search.started.append((0, probe.model_copy(update={"counts": False, "wall_s": 15.0})))
    assert search._runs_left() < on_one_node
    search.started.pop()
    plan = candidate.plan.model_copy(update={"nodes": 16})
    search.space.candidates[number] = dataclasses.replace(candidate, plan=plan)
    assert search._runs_left() == 0
