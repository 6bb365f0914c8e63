"""Queues: settings that lose steps or hang; what is known of a step's size, what a node can hold, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import SITE, Planner
from workflow.errors import SpecError
from workflow.plan.allocation_check import node_needs
from workflow.plan.make import make_plan
from workflow.plan.streams.engine_parameters import ParameterError
from workflow.plan.streams.queue import check_bound
from workflow.spec.load import load_pipeline

ONE = """
stages:
  walk: {component: walker%s}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, %s}
"""
SHAPED = """
stages:
  sim: {command: [/bin/sim], writes: {f: {variables: {E: {type: float32, shape: [256, 1024, 1024]}%s}}}}
  keep: {component: keep}
streams:
  f: {from: sim, to: keep}
"""
ROOMY = SITE.model_copy(update={"nodes": 2, "launcher": "mpiexec", "memory_per_node": 2**36})
CLUSTER = SITE.model_copy(update={"nodes": 4, "launcher": "mpiexec"})


def refused(plan_of: Planner, text: str, site: object = SITE) -> str:
    with pytest.raises(SpecError) as caught:
        plan_of(text, site=site)  # type: ignore[arg-type]
    return str(caught.value)


def test_the_bound_is_limit_plus_one_steps(plan_of: Planner) -> None:
    stream = plan_of(ONE % ("", "step_size: 1 GiB, queue: {limit: 2}")).stream("positions")
    assert (stream.step_size, stream.queue_memory) == (2**30, 3 * 2**30)
    assert plan_of(ONE % ("", "queue: {limit: 2}")).stream("positions").queue_memory is None


def test_a_file_has_no_queue(plan_of: Planner) -> None:
    stream = plan_of(ONE % ("", "via: bp5, step_size: 100 TiB")).stream("positions")
    assert (stream.step_size, stream.queue_memory) == (100 * 2**40, None)


def test_the_way_out_is_the_largest_limit_that_fits(plan_of: Planner) -> None:
    said = refused(plan_of, ONE % ("", "step_size: 2 GiB, queue: {limit: 4}"))
    assert "5 steps × 2 GiB (step_size) = 10 GiB" in said
    assert "a node of site test has 8 GiB" in said
    assert "`queue: {limit: 3}`" in said
    plan_of(ONE % ("", "step_size: 2 GiB, queue: {limit: 3}"))  # and it does fit


def test_a_step_that_no_limit_makes_fit(plan_of: Planner) -> None:
    assert "limit:" not in refused(plan_of, ONE % ("", "step_size: 5 GiB"))


def test_more_nodes_take_more(plan_of: Planner) -> None:
    text = ONE % (", ranks: 4, place: {nodes: %d}", "step_size: 5 GiB")
    assert "more nodes for its writer" in refused(plan_of, text % 1, CLUSTER)
    plan = plan_of(text % 4, site=CLUSTER)
    assert plan.stream("positions").queue_memory == 15 * 2**30
    assert "3.75 GiB on a node" in plan.reasons["streams.positions.queue.memory"]


def test_the_fullest_node_counts_wherever_memory_is_compared(plan_of: Planner) -> None:
    """5 ranks on 2 nodes: 3 and 2. The queue of 3 steps of 5 GiB is 9 GiB on the first node."""
    plan = plan_of(ONE % (", ranks: 5, place: {nodes: 2}", "step_size: 5 GiB"), site=ROOMY)
    assert "15 GiB, 9 GiB on a node" in plan.reasons["streams.positions.queue.memory"]
    assert max(need.memory for need in node_needs(plan)) == 9 * 2**30


def test_openpmd_takes_by_environment_what_its_engine_has_anyway(plan_of: Planner) -> None:
    text = """
stages:
  a: {command: [./a, "${{ streams.out.path }}"], writes: {out: {config: env}}}
  b: {command: [./b, "${{ streams.out.path }}"], reads: {out: {config: env}}}
streams:
  out: {from: a, to: b, queue: {QUEUE}}
"""
    assert not [line for line in plan_of(text.replace("QUEUE", "limit: 2")).advice if "QueueLimit" in line]
    (note,) = [line for line in plan_of(text.replace("QUEUE", "limit: 3")).advice if "QueueLimit" in line]
    assert "openPMD-api has no environment variable for " in note
    assert "QueueFullPolicy=Discard" in refused(plan_of, text.replace("QUEUE", "limit: 2, when_full: discard"))


def test_queues_of_one_node_are_added_up(plan_of: Planner) -> None:
    text = """
stages:
  walk: {component: walker}
  also: {component: walker}
  keep: {component: keep}
  hold: {component: keep, with: {path: held.bp}}
streams:
  a: {from: walk, to: keep, step_size: 1 GiB}
  b: {from: also, to: hold, step_size: 2 GiB}
"""
    said = refused(plan_of, text)
    assert "streams.b.step_size" in said
    assert "with a it is 9 GiB" in said
    # each on a node of its own
    plan_of(text, site=CLUSTER.model_copy(update={"cores_per_node": 1}))


def test_shapes_say_the_size_where_all_are_numbers(plan_of: Planner) -> None:
    stream = plan_of(SHAPED % "").stream("f")
    assert (stream.step_size, stream.queue_memory) == (2**30, 3 * 2**30)
    # of part of a step: enough to refuse, not to compare with what is measured
    more = SHAPED % ", n: {type: int64, shape: [N]}"
    assert plan_of(more).stream("f").step_size is None
    assert "at least 3 steps × 1 GiB" in refused(plan_of, more, SITE.model_copy(update={"memory_per_node": 2**31}))


def test_a_components_own_parameter_says_the_size(tmp_path: Path) -> None:
    """The real synthetic component; without it, nothing is known."""
    file = tmp_path / "pipeline.yaml"
    for given, expected in (("bytes: 2 MB", 4_000_000), ("grid_points: 10", None)):
        file.write_text(
            f"wf: 1\nname: a\nstages:\n  make: {{component: synthetic, ranks: 2, with: {{{given}}}}}\n"
            '  drop: {component: "null"}\nstreams:\n  data: {from: make, to: drop}\n'
        )
        plan = make_plan(load_pipeline(file), SITE, python="/python", wf_version="0")
        assert plan.stream("data").step_size == expected


def test_much_of_the_memory_is_mentioned(plan_of: Planner) -> None:
    plan = plan_of(ONE % ("", "step_size: 2 GiB"))
    assert any("6 GiB of the 8 GiB" in line for line in plan.advice)


def test_a_list_of_settings_that_lose_steps_or_hang() -> None:
    with pytest.raises(ParameterError, match="drops every step"):
        check_bound("SST", {"QueueFullPolicy": "Discard", "QueueLimit": "0"})
    with pytest.raises(ParameterError, match="wait forever"):
        check_bound("SST", {"QueueFullPolicy": "Block", "QueueLimit": "2", "ReserveQueueLimit": "2"})
    with pytest.raises(ParameterError, match="no room would be left"):
        check_bound("SST", {"QueueFullPolicy": "Discard", "QueueLimit": "2", "ReserveQueueLimit": "3"})
    with pytest.raises(ParameterError, match="leaves no room"):
        check_bound("SST", {"QueueLimit": "1", "FirstTimestepPrecious": "true"})
    check_bound("SST", {"QueueFullPolicy": "Block", "QueueLimit": "2", "ReserveQueueLimit": "1"})
    check_bound("SST", {"QueueLimit": "2", "FirstTimestepPrecious": "true"})
    check_bound("BP5", {"QueueFullPolicy": "Discard"})
