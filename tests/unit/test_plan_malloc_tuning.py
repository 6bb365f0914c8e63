"""The memory policy of stages: on where the site can, explained, and never against the user's own settings."""

from __future__ import annotations

import re

import pytest

from tests.support.planner import SITE, Planner
from workflow.errors import SpecError
from workflow.plan.plan_model import StageMemory
from workflow.site.this_machine import memory_policy

NEW = SITE.model_copy(update={"glibc": "2.36", "memory_policy": ["huge_pages", "keep_freed"]})
OLD = SITE.model_copy(update={"glibc": "2.28", "memory_policy": ["keep_freed"]})
SHARE = 2**33 // 4 // 3  # a quarter of the node's memory, among the three ranks of the chain


def test_on_by_default_for_stages_with_streams(plan_of: Planner) -> None:
    plan, kept = plan_of(site=NEW), SHARE // 2**20 * 2**20
    for stage in plan.stages:
        assert stage.memory == StageMemory(huge_pages=True, keep_freed=kept)
        tunables = f"glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold={kept}:glibc.malloc.trim_threshold={kept}"
        assert stage.env["GLIBC_TUNABLES"] == tunables
        why = plan.reasons[f"stages.{stage.name}.env.GLIBC_TUNABLES"]
        assert "up to 682 MiB" in why and "docs/benchmarks.md" in why
    assert plan_of(site=NEW, via="bp5").stage("walk").memory is not None


def test_left_alone_without_streams_and_where_the_site_cannot(plan_of: Planner) -> None:
    plan = plan_of("\nstages:\n  a: {command: [ls]}\n", site=NEW)
    assert plan.stage("a").memory is None and "GLIBC_TUNABLES" not in plan.stage("a").env
    assert "no ADIOS2 stream" in plan.reasons["stages.a.memory"]
    told = SITE.model_copy(update={"seen": {"memory_policy": "the C library is not glibc"}})
    assert "not glibc" in plan_of(site=told).reasons["stages.walk.memory"]


def test_older_glibc_is_told_by_its_own_variables(plan_of: Planner) -> None:
    plan = plan_of(site=OLD)
    env = plan.stage("walk").env
    assert (env["MALLOC_MMAP_THRESHOLD_"], env["MALLOC_TRIM_THRESHOLD_"]) == (str(2**25), str(682 * 2**20))
    assert "GLIBC_TUNABLES" not in env
    assert "too old" in plan.reasons["stages.walk.memory"]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("{huge_pages: false, keep_freed: false}", None),
        (
            "{huge_pages: false, keep_freed: 1 GiB}",
            "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=1073741824",
        ),
        ("{keep_freed: false}", "glibc.malloc.hugetlb=1"),
    ],
)
def test_users_choose(plan_of: Planner, memory: str, expected: str | None) -> None:
    plan = plan_of(sets=(f"stages.walk.memory={memory}",), site=NEW)
    assert plan.stage("walk").env.get("GLIBC_TUNABLES") == expected
    assert "stages.walk.memory" in plan.reasons


def test_users_may_ask_for_it_without_streams(plan_of: Planner) -> None:
    plan = plan_of("\nstages:\n  a: {command: [ls], memory: {keep_freed: true}}\n", site=NEW)
    assert plan.stage("a").memory == StageMemory(huge_pages=False, keep_freed=2**31)


def test_the_users_own_variables_stay(plan_of: Planner) -> None:
    plan = plan_of(sets=("stages.walk.env={GLIBC_TUNABLES: glibc.malloc.check=3}",), site=NEW)
    assert plan.stage("walk").env["GLIBC_TUNABLES"] == "glibc.malloc.check=3"
    assert plan.stage("walk").memory is None
    assert "is set already" in plan.reasons["stages.walk.memory"]
    own = plan_of(sets=("stages.walk.env={MALLOC_TRIM_THRESHOLD_: 1}",), site=NEW)
    assert "GLIBC_TUNABLES" not in own.stage("walk").env


def test_huge_pages_where_there_are_none(plan_of: Planner) -> None:
    with pytest.raises(SpecError, match=re.escape("its glibc is 2.28, 2.35 is needed")):
        plan_of(sets=("stages.walk.memory.huge_pages=true",), site=OLD)


def test_the_short_form_is_both_keys(plan_of: Planner) -> None:
    assert plan_of(sets=("stages.walk.memory=false",), site=NEW).stage("walk").memory is None
    on = plan_of(sets=("stages.walk.memory=true",), site=NEW).stage("walk").memory
    assert on == StageMemory(huge_pages=True, keep_freed=SHARE // 2**20 * 2**20)


def test_a_size_that_a_node_does_not_have(plan_of: Planner) -> None:
    ranks = ("stages.walk.ranks=2", "stages.walk.place.cores_per_rank=1")
    with pytest.raises(SpecError, match=re.escape("keep up to 5 GiB; a node of site test has 8 GiB for 2 ranks")):
        plan_of(sets=(*ranks, "stages.walk.memory.keep_freed=5 GiB"), site=NEW)
    assert plan_of(sets=(*ranks, "stages.walk.memory.keep_freed=4 GiB"), site=NEW).stage("walk").memory


def test_a_size_that_is_of_no_use(plan_of: Planner) -> None:
    plan = plan_of(sets=("stages.walk.memory.keep_freed=8 KiB",), site=NEW)
    assert "up to 8 KiB" in plan.reasons["stages.walk.memory"]
    assert any("stages.walk.memory.keep_freed: 8 KiB is little" in line for line in plan.advice)


def test_what_the_shell_says_is_shown(plan_of: Planner) -> None:
    told = SITE.model_copy(update={"seen": {"memory_policy": memory_policy("2.36", {"MALLOC_ARENA_MAX": "1"})[1]}})
    line = "the memory policy of stages is left alone: MALLOC_ARENA_MAX is set in this environment"
    assert line in plan_of(site=told).advice
    assert line not in plan_of(sets=("stages.*.memory=false",), site=told).advice
