"""`wf plan --explain`: what a key is, and which was meant."""

from __future__ import annotations

import re

import pytest

from tests.support.planner import CHAIN, SITE, Planner
from workflow.errors import WfError
from workflow.plan.explain import explain_key
from workflow.plan.topology.implicit_stages import complete_pipeline

MPI = SITE.model_copy(update={"planes": ["tcp", "mpi"]})


def explained(plan_of: Planner, key: str, via: str | None = None) -> str:
    return explain_key(complete_pipeline(plan_of.load(via=via)), plan_of(via=via, site=MPI), key)


def test_a_queue_that_the_engine_does_not_have(plan_of: Planner) -> None:
    assert "not used with `via: bp5`" in explained(plan_of, "streams.positions.queue", via="bp5")
    assert "in the plan" not in explained(plan_of, "streams.positions.queue")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("streams.positions.que.limit", "streams.positions.queue.limit"),
        ("streams.position.queue.limt", "streams.positions.queue.limit"),
        ("streams.positions.write.QueueLimt", "streams.positions.write.QueueLimit"),
    ],
)
def test_the_key_that_was_meant(plan_of: Planner, key: str, meant: str) -> None:
    with pytest.raises(WfError, match=re.escape(f"did you mean `{meant}`?")):
        explained(plan_of, key)


def test_what_is_not_given_is_left_out(plan_of: Planner) -> None:
    assert "null" not in explained(plan_of, "stages.walk")
    assert "stages.walk.command = null" in explained(plan_of, "stages.walk.command")


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        (
            "streams.positions.coupling",
            ["null", "from default", "in force: live", "because live is the default of SST"],
        ),
        (
            "streams.positions.transport",
            ['"auto"', "from default", "in force: shm", "because auto: shared memory, all ends are on node 0"],
        ),
        ("streams.positions.via", ['"sst"', "from default", "in force: shm"]),
        ("stages.walk.place.nodes", ["null", "from default", "in force: 1"]),
        ("stages.walk.place.cores_per_rank", ["null", "from default", "in force: 1"]),
        ("stages.walk.memory.huge_pages", ["null", "from default", "in force: false"]),
        ("deadlines.run", ["null", "from default", "in force: no limit"]),
        ("stages.count.with.bins", ["10", "from default of component tally"]),
        ("oversubscribe", ["false", "from default"]),
    ],
)
def test_a_key_that_was_not_written_has_the_value_in_force(plan_of: Planner, key: str, lines: list[str]) -> None:
    said = explained(plan_of, key).splitlines()
    assert said[0] == f"{key} = {lines[0]}"
    assert len(said) >= len(lines)
    for line, start in zip(said[1:], lines[1:], strict=False):
        assert line.strip().startswith(start)


def test_what_holds_for_several_streams_is_said_once_with_their_names(plan_of: Planner) -> None:
    said = explained(plan_of, "streams")
    assert said.count("auto: shared memory") == 1
    assert "streams.positions.transport, streams.counts.transport\n  because auto: shared memory" in said


def test_a_policy_has_what_follows_from_it(plan_of: Planner) -> None:
    output = "output: {aggregation: {count: 1}, async: guided, compression: {position: {blosc: {codec: zstd}}}}"
    text = CHAIN.replace("walker}", f"walker, {output}}}")
    assert output in text
    pipeline, plan = complete_pipeline(plan_of.load(text, via="bp5")), plan_of(text, via="bp5", site=MPI)
    said = {
        key: explain_key(pipeline, plan, f"stages.walk.output{key}").splitlines()
        for key in ("", ".async", ".compression")
    }
    assert said[".async"][2:] == ["streams.positions.write.AsyncWrite = Guided", "  because output.async: guided"]
    assert said[".compression"][2] == "streams.positions.write.operators.position"
    assert [line.split(" ")[0] for line in said[""] if line.startswith("streams.")] == [
        "streams.positions.write.AsyncWrite",
        "streams.positions.write.NumAggregators",
        "streams.positions.write.operators.position",
    ]
