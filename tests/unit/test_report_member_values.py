"""Which member has which values: in the tables of the plan and of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path

from tests.support.planner import Planner, walkers
from tests.support.sample_run import write_run, write_sample
from workflow.report.html.page import make_html
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report
from workflow.report.report_model import Report, StagePart, StreamPart
from workflow.report.show.folded_members import fold_plan, fold_report
from workflow.report.show.member_values import members_of_run, planned_members
from workflow.report.show.plan_tables import plan_stage_table
from workflow.report.show.printing import show_plan, show_report, show_status
from workflow.report.show.terminal import Output
from workflow.report.show.text_table import Table


def shown(table: Table) -> tuple[list[str], list[list[str]], str]:
    return [each.title for each in table.head], table.rows, "".join(line.text for line in table.below)


def test_the_plan_has_a_table_of_members_and_values(plan_of: Planner) -> None:
    (table,) = planned_members(plan_of(walkers("{matrix: {n: [5, 7], name: [a, true]}}"), sets=("oversubscribe=true",)))
    rows = [["walk-0", "5", "a"], ["walk-1", "5", "true"], ["walk-2", "7", "a"], ["walk-3", "7", "true"]]
    assert shown(table) == (["member of walk", "n", "name"], rows, "")
    assert [each.content for each in table.head] == ["text", "number", "text"]


def test_what_differs_in_the_commands_of_members_is_left_open(plan_of: Planner, tmp_path: Path) -> None:
    """Not the values of the first member as if they were those of all."""
    text = (
        'stages:\n  sim: {command: [./sim, "--fast mode", "${{ member.speed }}"], members: [{speed: 1}, {speed: 2}]}\n'
    )
    plan = plan_of(text)
    assert "sim '--fast mode' …" in plan_stage_table(fold_plan(plan)).rows[0]
    report = compute_report(write_run(tmp_path / "run", plan, [], {}))
    (folded,) = fold_report(report).stages
    assert folded.program.endswith("/sim '--fast mode' …")


def test_members_without_values_and_stages_that_are_none_have_no_table(plan_of: Planner) -> None:
    assert planned_members(plan_of()) == []
    without = walkers("2").replace('walkers: "${{ member.n }}"', "labels: [a]")
    assert planned_members(plan_of(without)) == []


def test_of_many_members_the_first_ones_are_shown(plan_of: Planner) -> None:
    members = "{count: 14, at_once: 1, draw: {n: {from: 1, to: 99, whole: true}}, seed: 7}"
    plan = plan_of(walkers(members))
    (table,) = planned_members(plan)
    assert [row[0] for row in table.rows] == [f"walk-{index:02}" for index in range(10)]
    assert shown(table)[2] == "… and 4 more: `--json`"
    stages = {each["name"]: each for each in json.loads(plan.to_json())["stages"]}
    for name, value in table.rows:
        assert str(stages[name]["member"]["values"]["n"]) == value


def test_who_reads_one_of_them_has_the_same_values_and_no_second_table(plan_of: Planner) -> None:
    text = walkers("[{n: 5}, {n: 7}]").replace("collect: any", "collect: each").replace("keep}\n}", "keep}")
    plan = plan_of(text.replace("to: keep}", "to: keep, collect: any}"))
    assert [shown(table)[0][0] for table in planned_members(plan)] == ["member of walk"]


def test_an_independent_ensemble_with_the_same_values_has_its_table(plan_of: Planner) -> None:
    """Values of different ensembles mean different things."""
    stages = """
      other: {component: walker, members: [{n: 5}, {n: 7}], with: {walkers: "${{ member.n }}"}}
      also: {component: tally, with: {variable: position}}
      keep-also: {component: keep, with: {path: also.bp}}
    streams:
      others: {from: other, to: also, collect: any}
      also: {from: also, to: keep-also}
    """.replace("\n    ", "\n").rstrip()
    text = walkers("[{n: 5}, {n: 7}]").replace("\nstreams:", stages)
    plan = plan_of(text, sets=("oversubscribe=true",))
    assert [shown(table)[0][0] for table in planned_members(plan)] == ["member of walk", "member of other"]


def test_readers_of_members_have_a_table_of_a_run_where_their_states_differ(tmp_path: Path) -> None:
    report = compute_report(write_sample(tmp_path / "run", steps=3))
    md, saxs, atoms = report.stage("md"), report.stage("saxs"), report.stream("atoms")

    def members(stage: StagePart, states: list[str]) -> list[StagePart]:
        return [
            stage.model_copy(
                update={"name": f"{stage.name}-{at}", "ensemble": stage.name, "values": {"F": at}, "state": state}
            )
            for at, state in enumerate(states)
        ]

    streams = [
        atoms.model_copy(
            update={"writer": f"md-{at}", "readers": [atoms.readers[0].model_copy(update={"stage": f"saxs-{at}"})]}
        )
        for at in range(2)
    ]

    def tables(states: list[str], streams: list[StreamPart]) -> list[str]:
        stages = [*members(md, ["succeeded"] * 2), *members(saxs, states)]
        whole = report.model_copy(update={"stages": stages, "streams": streams})
        return [shown(table)[0][0] for table in members_of_run(whole, "status")]

    assert tables(["succeeded", "succeeded"], streams) == ["member of md"]
    assert tables(["succeeded", "failed"], streams) == ["member of md", "member of saxs"]
    # The first one reads the second one as well: still one table, not none.
    back = [
        each.model_copy(
            update={
                "writer": each.readers[0].stage,
                "readers": [each.readers[0].model_copy(update={"stage": each.writer})],
            }
        )
        for each in streams
    ]
    assert len(tables(["succeeded", "succeeded"], [*streams, *back])) == 1


def ensemble(tmp_path: Path, count: int) -> Report:
    """A report with members of which number 12 has failed."""
    report = compute_report(write_sample(tmp_path / "run", steps=3))
    md = report.stages[0].model_copy(update={"ensemble": "md"})
    md = md.model_copy(update={"state": "succeeded"})
    members = [md.model_copy(update={"name": f"md-{at}", "values": {"F": at / 100}}) for at in range(count)]
    if count > 12:
        members[12] = members[12].model_copy(update={"state": "failed"})
    return report.model_copy(update={"stages": [*members, *report.stages[1:]]})


def test_a_member_that_has_failed_has_room_before_the_others(tmp_path: Path) -> None:
    report = ensemble(tmp_path, 14)
    (table,) = members_of_run(report, "status")
    head, rows, more = shown(table)
    assert head == ["member of md", "F", "state"]
    assert rows[:9] == [[f"md-{at}", str(at / 100), "succeeded"] for at in range(9)]
    assert rows[9:] == [["md-12", "0.12", "failed"]]
    assert more == "… and 4 more: `--json`"
    (page,) = members_of_run(report, "page")
    assert len(page.rows) == 14 and not page.below


def printed(show: object, *arguments: object) -> str:
    assert callable(show)
    text = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    show(*arguments, Output(text))
    text.seek(0)
    return text.read()


def test_the_tables_are_printed_and_on_the_page(tmp_path: Path, plan_of: Planner) -> None:
    report = ensemble(tmp_path, 3)
    for show in (show_status, show_report):
        said = printed(show, report)
        assert "member of md" in said and "0.02" in said
    single = report.stages[2].model_copy(update={"name": "md"})
    html = make_html(read_records(tmp_path / "run"), report.model_copy(update={"stages": [single, *report.stages[3:]]}))
    assert "member of md" in html and "0.02" in html
    assert "member of walk" in printed(show_plan, plan_of(walkers("[{n: 5}, {n: 7}]")))


def test_a_thousand_members_are_a_few_lines(tmp_path: Path) -> None:
    (table,) = members_of_run(ensemble(tmp_path, 1000), "terminal")
    assert len(table.rows) == 10 and shown(table)[2] == "… and 990 more: `--json`"
