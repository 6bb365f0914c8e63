"""Pipes and taps become stages and streams: which ones, with what of the user's, and where it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import COMPONENTS, Planner, end_of
from workflow.errors import SpecError
from workflow.plan.explain import explain_key
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.site.site_model import Site
from workflow.spec import shipped

PIPED = """
stages:
  walk: {component: walker, ranks: 2, output: {async: pipe, pipe: {ranks: 2}, aggregation: {count: 2}}}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, via: bp5}
  counts: {from: count, to: keep}
"""
TAPPED = """
stages:
  walk: {component: walker}
  keep: {component: keep}
streams:
  positions:
    from: walk
    to: keep
    via: %s
    tap:
      more: {component: keep, every: 10, with: {path: more.bp}}
      last: {component: keep, latest: true, with: {path: last.bp}}
      all: {component: keep, queue: {when_full: block}, with: {path: all.bp}}
"""


def test_a_pipe_writes_the_file_under_its_name(plan_of: Planner) -> None:
    plan = plan_of(PIPED)
    assert [(stage.name, stage.added) for stage in plan.stages] == [
        ("walk", None), ("positions-pipe", "pipe"), ("count", None), ("keep", None),
    ]  # fmt: skip
    pipe, file = plan.stream("positions-pipe"), plan.stream("positions")
    assert (pipe.writer, pipe.readers, pipe.engine) == ("walk", ["positions-pipe"], "SHM")
    assert (file.writer, file.readers, file.engine, file.coupling) == ("positions-pipe", ["count"], "BP5", "after")
    assert file.path.endswith("/streams/positions.bp")
    assert plan.stage("count").starts_after == ["positions-pipe"]
    # No core of its own, and the policies of the file.
    assert plan.stage("positions-pipe").placement.cores == []
    assert end_of(plan, "positions-pipe", "positions").parameters["NumAggregators"] == "2"
    assert "NumAggregators" not in end_of(plan, "walk", "positions-pipe").parameters
    assert plan.stage("positions-pipe").ranks == 2


def test_a_pipe_compresses_what_its_writer_does_not(plan_of: Planner) -> None:
    plan = plan_of(PIPED.replace("aggregation: {count: 2}", "compression: {position: {blosc: {codec: zstd}}}"))
    assert end_of(plan, "positions-pipe", "positions").operators.keys() == {"position"}
    assert not end_of(plan, "walk", "positions-pipe").operators


def test_the_contract_goes_through_a_pipe(plan_of: Planner) -> None:
    assert end_of(plan_of(PIPED), "count", "positions").variables["position"].type == "float64"
    with pytest.raises(SpecError, match="needs `positon`"):
        plan_of(PIPED.replace("variable: position", "variable: positon"))


def test_a_stream_from_memory_to_memory_needs_no_pipe(plan_of: Planner) -> None:
    plan = plan_of(PIPED, via="sst")
    assert not [stage for stage in plan.stages if stage.added]
    assert any("stages.walk.output.async has no effect on stream positions" in note for note in plan.advice)


def test_taps_of_a_stream(plan_of: Planner) -> None:
    plan = plan_of(TAPPED % "sst")
    assert plan.stream("positions").readers == ["keep", "all", "positions-relay"]
    assert end_of(plan, "walk", "positions").parameters["RendezvousReaderCount"] == "3"
    assert plan.stage("positions-relay").parameters == {"every": [10, 1]}
    queues = {name: plan.stream(name).queue for name in ("more", "last", "positions")}
    assert {name: (queue.limit, queue.when_full) for name, queue in queues.items() if queue} == {
        "more": (2, "discard"), "last": (1, "discard"), "positions": (2, "block"),
    }  # fmt: skip
    assert [stage.added for stage in plan.stages] == [None, None, "tap", "tap", "tap", "relay"]


def test_a_relay_meets_its_taps_before_it_takes_a_step(plan_of: Planner) -> None:
    """SST streams are opened in the plan's order."""
    relay = plan_of(TAPPED % "sst").stage("positions-relay")
    assert [(end.stream, end.side) for end in relay.ends] == [
        ("more", "write"),
        ("last", "write"),
        ("positions", "read"),
    ]


@pytest.mark.parametrize(("queue", "told"), [("", True), ("latest: true,", False), ("queue: {limit: 9},", True)])
def test_an_archive_that_is_a_tap_may_lose_steps(
    queue: str, told: bool, plan_of: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [COMPONENTS, Path(__file__).parents[2] / "components"])
    text = f"""
stages:
  walk: {{component: walker}}
  keep: {{component: keep}}
streams:
  positions: {{from: walk, to: keep, tap: {{more: {{component: archive, {queue} with: {{path: more.bp}}}}}}}}
"""
    said = "tap more: a tap may lose steps; `queue: {when_full: block}` keeps them all"
    assert (said in plan_of(text).advice) == told


def test_taps_of_a_file_lose_nothing(plan_of: Planner) -> None:
    plan = plan_of(TAPPED % "bp5")
    assert plan.stream("positions").readers == ["keep", "all", "positions-relay"]
    queue = plan.stream("more").queue
    assert queue is not None
    assert queue.when_full == "block"


def test_it_is_explained_where_it_was_asked_for(plan_of: Planner) -> None:
    pipeline = complete_pipeline(plan_of.load(TAPPED % "sst"))
    plan = plan_of(TAPPED % "sst")
    said = explain_key(pipeline, plan, "stages.more")
    assert "a tap of stream positions: streams.positions.tap.more (" in said
    assert pipeline.origins.place("stages.more.with.path")[1] == 13
    assert plan_of(TAPPED % "sst", sets=("streams.positions.tap.more.every=5",)).stage(
        "positions-relay"
    ).parameters == {"every": [5, 1]}


def test_pipes_and_taps_sit_beside_what_they_read(plan_of: Planner) -> None:
    site = Site(site="test", summary="8 × 4 cores", nodes=8, cores_per_node=4, memory_per_node=2**33, launcher="srun")
    text = PIPED.replace("walker, ranks: 2", "walker, ranks: 8, place: {nodes: 4}")
    plan = plan_of(text, site=site)
    assert plan.stage("positions-pipe").placement.nodes[0][0] == plan.stage("walk").placement.nodes[0][0]
    assert any("`stages.walk.output.pipe.ranks: 4` puts one rank on each" in note for note in plan.advice)


def test_placeholders_of_the_writer_mean_what_it_writes(plan_of: Planner) -> None:
    (plan_of.folder / "in.txt").write_text("a ${{ streams.x.path }} $${{ streams.x.path }} ${{streams.x.engine}}")
    plan = plan_of("""
stages:
  sim:
    command: [sim, "${{ streams.x.path }}", "${{ streams.x.config }}"]
    env: {MINE: "${{ streams.xy.path }}"}
    files: {in.txt: in.txt}
    writes: {x: {io: X, config: adios2.xml}, xy: {io: Y, config: adios2.xml}}
    output: {async: pipe}
  keep: {component: keep}
  more: {component: keep, with: {path: more.bp}}
  own: {command: [own, "${{ streams.x.path }}"]}
streams:
  x: {from: sim, to: [keep, own], via: bp5}
  xy: {from: sim, to: more}
""")
    sim = plan.stage("sim")
    assert sim.program[1:] == ["${{ run.dir }}/streams/x-pipe", "${{ run.dir }}/stages/sim/work/adios2.xml"]
    assert sim.env["MINE"] == "${{ run.dir }}/streams/xy"
    texts = [text for path, text in sim.files.items() if path.endswith("/in.txt")]
    assert texts == ["a ${{ run.dir }}/streams/x-pipe $${{ streams.x.path }} SST"]
    assert plan.stage("own").program[1] == "${{ run.dir }}/streams/x.bp"
