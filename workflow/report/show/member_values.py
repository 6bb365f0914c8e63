"""Which member of an ensemble has which values: a table for each ensemble whose members have some. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from workflow.report.show.text_table import (
    REPORT,
    Column,
    Table,
    View,
    make_table,
    number_column,
    state_column,
    text_column,
)
from workflow.spec.placeholder_syntax import scalar_text

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan
    from workflow.report.report_model import Report
    from workflow.spec.models.units import Scalar

MOST_ROWS = 10
MOST_ROWS_OF_PAGE = 200
Keyed = TypeVar("Keyed")


class MemberRow(NamedTuple):
    """A member with its values; of a run also its state."""

    name: str
    values: Mapping[str, Scalar]
    state: str = ""


def planned_members(plan: Plan) -> list[Table]:
    """Of the members of a plan. The line below a table says how many members have no row, and where they are."""
    members = [(stage.name, stage.member) for stage in plan.stages if stage.member is not None and stage.member.values]
    found = {}
    for ensemble, its in _by(members, lambda each: each[1].ensemble).items():
        rows = [MemberRow(name, member.values) for name, member in its]
        found[ensemble] = (rows, _table(ensemble, rows, rows[:MOST_ROWS], "`--json`"))
    return _each_once(found, ((stream.writer, stream.readers) for stream in plan.streams))


def members_of_run(report: Report, view: View) -> list[Table]:
    """Of the members of a run, with the same line."""
    most, where = (MOST_ROWS_OF_PAGE, "report.json") if view == "page" else (MOST_ROWS, "`--json`")
    members = [stage for stage in report.stages if stage.ensemble and stage.values]
    found = {}
    for ensemble, its in _by(members, lambda stage: stage.ensemble).items():
        rows = [MemberRow(stage.name, stage.values, stage.state) for stage in its]
        found[ensemble] = (rows, _table(ensemble, rows, _chosen(rows, most), where))
    streams = ((stream.writer, [reader.stage for reader in stream.readers]) for stream in report.streams)
    return _each_once(found, streams)


def _by(items: Iterable[Keyed], key: Callable[[Keyed], str]) -> dict[str, list[Keyed]]:
    found: dict[str, list[Keyed]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _chosen(rows: Sequence[MemberRow], most: int) -> list[MemberRow]:
    """As many as have room, in their order: those that have failed, then the first ones."""
    first = sorted(range(len(rows)), key=lambda at: (rows[at].state != "failed", at))
    return [rows[at] for at in sorted(first[:most])]


def _table(ensemble: str, rows: Sequence[MemberRow], shown: Sequence[MemberRow], where: str) -> Table:
    columns: list[Column[MemberRow]] = [text_column(f"member of {ensemble}", lambda row: row.name)]
    columns += [_value_column(name, rows) for name in rows[0].values] if rows else []
    if any(row.state for row in rows):
        columns.append(state_column("state", lambda row: row.state))
    more = len(rows) - len(shown)
    return make_table(columns, shown, below=[f"… and {more} more: {where}"] if more else [])


def _value_column(name: str, rows: Sequence[MemberRow]) -> Column[MemberRow]:
    are_numbers = all(isinstance(row.values[name], int | float) for row in rows)
    column = number_column if are_numbers else text_column
    return column(name, lambda row: scalar_text(row.values[name]), REPORT)


def _each_once(
    found: Mapping[str, tuple[Sequence[MemberRow], Table]], streams: Iterable[tuple[str, Iterable[str]]]
) -> list[Table]:
    """The tables without those of ensembles whose members say the same as the members of another one that they read.

    Args:
        found: ensemble → its rows and its table.
        streams: writer and readers of each.
    """
    members = {row.name: (ensemble, row) for ensemble, (rows, _) in found.items() for row in rows}
    writers: dict[str, list[str]] = {}
    for writer, readers in streams:
        for reader in readers:
            writers.setdefault(reader, []).append(writer)
    follows: dict[str, str] = {}
    for ensemble, (rows, _) in found.items():
        sources = {_followed(ensemble, row, members, writers) for row in rows}
        if len(sources) == 1 and (source := sources.pop()):
            while source in follows:
                source = follows[source]
            # Of ensembles that read each other the first one has a table.
            if source != ensemble:
                follows[ensemble] = source
    return [table for ensemble, (_, table) in found.items() if ensemble not in follows]


def _followed(
    ensemble: str,
    row: MemberRow,
    members: Mapping[str, tuple[str, MemberRow]],
    writers: Mapping[str, Sequence[str]],
) -> str:
    """The other ensemble whose members this one reads, also through other stages, if all of these have its values and
    its state; empty: there is none."""
    left, seen, found = [*writers.get(row.name, ())], {row.name}, set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        other, its = members.get(name, ("", None))
        if its is None:
            left += writers.get(name, ())
        elif other != ensemble:
            if (its.values, its.state) != (row.values, row.state):
                return ""
            found.add(other)
    return found.pop() if len(found) == 1 else ""
