"""The members of an ensemble in one row of a table: what is said of all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sample_run import write_sample
from workflow.report.html.page import TEMPLATES
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report
from workflow.report.report_model import Report, StreamPart
from workflow.report.show import run_in_words
from workflow.report.show.folded_members import fold_report
from workflow.report.show.report_tables import limit_lines
from workflow.report.show.run_in_words import explanation


def ensemble(tmp_path: Path, *limits: tuple[str, str]) -> Report:
    """A report with one member for each of these: (what limited its stream, why that is not known)."""
    report = compute_report(write_sample(tmp_path / "run", steps=3))
    md, atoms = report.stages[0], report.stream("atoms")
    members = [md.model_copy(update={"name": f"md-{number}", "ensemble": "md"}) for number in range(len(limits))]
    streams: list[StreamPart] = [
        atoms.model_copy(
            update={"name": f"atoms-{number}", "writer": f"md-{number}", "limited_by": by, "limit_unknown": why}
        )
        for number, (by, why) in enumerate(limits)
    ]
    return report.model_copy(update={"stages": [*members, *report.stages[1:]], "streams": streams})


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ([("", "too short")] * 2, ["what limited stream 2 × atoms is not known: too short"]),
        (
            [("", "too short"), ("", "equally long")],
            ["what limited stream 2 × atoms is not known: none of the 2 shows it; of atoms-0: too short"],
        ),
        (
            [("saxs", ""), ("", "too short"), ("", "equally long"), ("md-3", "")],
            ["what limited stream 4 × atoms is not known: only 2 of the 4 show it; of atoms-1: too short"],
        ),
        ([("saxs", ""), ("md-1", "")], []),
    ],
)
def test_why_it_is_not_known_what_limited_the_streams_of_the_members(
    tmp_path: Path, limits: list[tuple[str, str]], said: list[str]
) -> None:
    lines = limit_lines(fold_report(ensemble(tmp_path, *limits)))
    assert [line for line in lines if "stream" in line.partition(" is not known")[0]] == said


def test_the_members_have_one_sentence_of_an_explanation(tmp_path: Path) -> None:
    report = ensemble(tmp_path, *[("saxs", "")] * 5)
    lost, never = report.stages[3], report.stages[4]
    stages = [*report.stages[:3], lost.model_copy(update={"state": "failed"})]
    stages += [never.model_copy(update={"started": None, "state": "stopped"}), *report.stages[5:]]
    report = report.model_copy(update={"stages": stages})
    said = explanation(report, read_records(tmp_path / "run"), has_data=False)
    members = [each for each in said if "md" in each.partition(" ran ")[0].partition(" did ")[0]]
    assert len(members) == 2 and members[1] == "md-4 did not start."
    assert members[0].startswith("4 × md ran for ") and members[0].endswith(" and 3 succeeded, 1 failed.")


def test_a_lack_of_cores_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = compute_report(write_sample(tmp_path / "run", steps=3))
    records = read_records(tmp_path / "run")
    lack = "md had a core for 18 % of the time and waited for one for 82 %: the machine was busy"
    monkeypatch.setattr(run_in_words, "shortages", lambda _: [lack])
    for evidence, count in (("md waited for 1 % of the time", 1), (f"md waited for 1 % of the time; but {lack}", 1)):
        run = report.run.model_copy(update={"limited_by": "md", "limit_evidence": evidence})
        said = explanation(report.model_copy(update={"run": run}), records, has_data=False)
        assert sum(sentence.count("had a core") for sentence in said) == count


def test_back_ticks_are_code_on_the_page() -> None:
    shown = TEMPLATES.filters["code"]("a <b> is not used: `transport: <tcp>` goes back")
    assert shown == "a &lt;b&gt; is not used: <code>transport: &lt;tcp&gt;</code> goes back"
