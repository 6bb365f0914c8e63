"""Spools on a node: where they are placed, who can read them, and whether they fit into memory."""

from __future__ import annotations

import re

import pytest

from tests.support.planner import SITE, Planner, with_launcher
from workflow.errors import SpecError
from workflow.plan.plan_model import Plan
from workflow.plan.streams.spool_places import spool_text
from workflow.report.show.plan_tables import failure_table, plan_stream_table

PIPELINE = """
stages:
  walk: {{component: walker, ranks: 2}}
  count: {{component: tally, with: {{variable: position}}, on_failure: {do}, {place}}}
  keep: {{component: keep}}
{other}
streams:
  positions: {{from: walk, to: [count{readers}], keep: {spool}{more}}}
  counts: {{from: count, to: keep, via: bp5}}
"""
CLUSTER = with_launcher("mpiexec", nodes=4)


def text(
    spool: str, *, do: str = "restart", place: str = "", more: str = "", readers: str = "", other: str = ""
) -> str:
    return PIPELINE.format(spool=spool, do=do, place=place, more=more, readers=readers, other=other)


def advice(plan: Plan) -> list[str]:
    return [each for each in plan.advice if each.startswith("streams.positions.keep")]


@pytest.mark.parametrize("place", ["/dev/shm", "$TMPDIR", "/local/nvme"])
def test_it_is_on_the_node_of_the_reader_that_is_started_again(place: str, plan_of: Planner) -> None:
    plan = plan_of(text(f"{{where: {place}, steps: 4}}"), site=CLUSTER)
    count, spool = plan.stage("count"), plan.stage("positions-spool")
    assert count.placement.nodes == spool.placement.nodes == [(1, 2)]
    stream, file = plan.stream("positions"), plan.stream("positions-spool")
    assert (stream.spool_where, stream.spool_steps, stream.has_whole_spool) == (place, 4, False)
    assert (file.path, file.keep) == ("${{ run.dir }}/streams/positions-spool.bp", False)
    assert spool.end("positions-spool", "write").on_node == place
    assert spool.end("positions", "read").on_node == ""
    assert advice(plan) == []


@pytest.mark.parametrize(("word", "where", "keeps"), [("true", "", True), ("{where: /dev/shm}", "/dev/shm", False)])
def test_all_steps_are_kept_unless_a_number_is_given(word: str, where: str, keeps: bool, plan_of: Planner) -> None:
    plan = plan_of(text(word))
    stream = plan.stream("positions")
    assert (stream.spool_where, stream.drops, stream.has_whole_spool) == (where, False, keeps)
    assert plan.stream("positions-spool").keep == keeps


def test_a_spool_in_the_run_directory_is_what_it_was(plan_of: Planner) -> None:
    assert plan_of(text("true")).to_json() == plan_of(text("{steps: all}")).to_json()
    assert "on_node" not in plan_of(text("true")).to_json()


@pytest.mark.parametrize("place", ["/dev/shm", "$TMPDIR"])
def test_a_reader_on_two_nodes_is_refused(place: str, plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(text(f"{{where: {place}}}", place="ranks: 2, place: {nodes: 2}"), site=CLUSTER)
    said = str(caught.value)
    assert f"count is on nodes 1-2, and its steps are kept in {place} of node 1: it could not read them" in said
    assert "remove `where`" in str(caught.value.problems[0].hint)
    plan_of(text("true", place="ranks: 2, place: {nodes: 2}"), site=CLUSTER)


def test_two_readers_that_are_started_again_must_be_on_one_node(plan_of: Planner) -> None:
    also = "  also: {component: keep, with: {path: also.bp}, on_failure: restart, place: {nodes: 1, cores_per_rank: 1}}"
    apart = text("{where: /dev/shm}", readers=", also", other=also)
    with pytest.raises(SpecError, match=re.escape("also is on node 2, and its steps are kept in /dev/shm of node 1")):
        plan_of(apart, site=CLUSTER)
    # On a machine of one node all is there.
    plan_of(apart)


def test_what_nobody_reads_is_said(plan_of: Planner) -> None:
    said, _ = advice(plan_of(text("{where: /dev/shm}", do="stop")))
    assert "only `wf attach` and `wf look --live` can read what it keeps" in said
    assert advice(plan_of(text("{where: /dev/shm, steps: 4}", do="stop"))) == [], "as something that is attached needs"


def test_what_files_do_not_heed_is_explained(plan_of: Planner) -> None:
    short = text("{where: /dev/shm, steps: 4}", do="stop")
    plan = plan_of(short.replace("keep: {where", "via: bp5, keep: {where"))
    said = "a file keeps all steps, at its own path: `steps` and `where` are for streams in memory"
    assert plan.reasons["streams.positions.keep"] == said and advice(plan) == []


def test_a_launcher_without_guards_has_no_spools_on_several_nodes(plan_of: Planner) -> None:
    flux = with_launcher("flux", nodes=4)
    with pytest.raises(
        SpecError, match="guard cannot run beside the stages under launcher flux, so the spool would be left behind"
    ):
        plan_of(text("{where: $TMPDIR, steps: 4}"), site=flux)
    plan_of(text("{where: $TMPDIR, steps: 4}"), site=with_launcher("flux"))


# The nodes of SITE have 8 GiB.
def test_what_does_not_fit_into_memory_is_refused(plan_of: Planner) -> None:
    said = "it keeps 10 steps × 1.07 GB = 10.7 GB in memory; a node of site test has 8.59 GB"
    with pytest.raises(SpecError, match=re.escape(said)):
        plan_of(text("{where: /dev/shm, steps: 10}", more=", step_size: 1 GiB"))
    plan_of(text("{where: $TMPDIR, steps: 10}", more=", step_size: 1 GiB"))


def test_more_than_half_of_memory_is_said(plan_of: Planner) -> None:
    (said,) = advice(plan_of(text("{where: /dev/shm, steps: 5}", more=", step_size: 1 GiB")))
    assert "5.37 GB in memory" in said and "/dev/shm takes no more than half" in said
    assert advice(plan_of(text("{where: /dev/shm, steps: 4}", more=", step_size: 1 GiB"))) == []


def test_that_all_steps_stay_in_memory_is_said(plan_of: Planner) -> None:
    (said,) = advice(plan_of(text("{where: /dev/shm}")))
    assert "all steps stay in the memory of a node until the run has ended" in said
    assert advice(plan_of(text("{where: $TMPDIR}"))) == []


@pytest.mark.parametrize(
    ("spool", "said"),
    [
        ("true", "all steps, in the run directory"),
        ("{steps: 64}", "the newest 64 steps, in the run directory"),
        ("{steps: 1, where: /dev/shm}", "the newest 1 step, in /dev/shm"),
        ("{where: $TMPDIR}", "all steps, in $TMPDIR"),
    ],
)
def test_the_tables_name_how_much_is_kept_and_where(spool: str, said: str, plan_of: Planner) -> None:
    plan = plan_of(text(spool, more=", queue: {limit: 1}"), site=SITE.model_copy(update={"memory_per_node": 2**40}))
    assert spool_text(plan.stream("positions")) == said
    rows = {row[0]: row for row in plan_stream_table(plan).rows}
    assert said in " ".join(rows["positions-spool"])
    failures = {row[0]: row for row in failure_table(plan).rows}
    assert f"(steps from positions-spool: {said})" in failures["count"][1]
