"""The members of an ensemble in one row of a table: what is said of all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sample_run import write_sample
from workflow.report.report_files import compute_report
from workflow.report.report_model import Report, StreamPart
from workflow.report.show.folded_members import fold_report
from workflow.report.show.run_in_words import limit_lines


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
