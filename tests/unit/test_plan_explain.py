"""`wf plan --explain`: what a key is, and which was meant."""

from __future__ import annotations

import re

import pytest

from tests.support.planner import SITE, Planner
from workflow.errors import WfError
from workflow.plan.explain import explain_key

MPI = SITE.model_copy(update={"planes": ["tcp", "mpi"]})


def explained(plan_of: Planner, key: str, via: str | None = None) -> str:
    return explain_key(plan_of.load(via=via), plan_of(via=via, site=MPI), key)


def test_a_queue_that_the_engine_has_otherwise(plan_of: Planner) -> None:
    said = explained(plan_of, "streams.positions.queue.limit", via="ssc")
    assert said.startswith("streams.positions.queue.limit = 2\n  from default\n  in the plan 1: that is how SSC works")
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
