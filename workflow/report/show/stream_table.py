"""The columns of the report's stream table: in report.html, `wf report` and `wf status`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from workflow.formatting import NOTHING, number, percent, rate, size
from workflow.plan.plan_model import StreamPlan
from workflow.report.show.text_table import (
    EVERYWHERE,
    PAGE,
    Column,
    Table,
    View,
    make_table,
    number_column,
    text_column,
)

if TYPE_CHECKING:
    from workflow.report.report_model import ReaderPart, Report, StreamPart

NOT_KNOWN = "not known"


class StreamRow(NamedTuple):
    """One reader of a stream. The stream's own figures stand in the row of its first reader only."""

    stream: StreamPart
    reader: ReaderPart
    is_first: bool


def engine_text(stream: StreamPart | StreamPlan) -> str:
    """`SST ucx`, `BP5`."""
    return f"{stream.engine} {stream.transport}" if stream.transport else stream.engine


def steps_read(reader: ReaderPart) -> str:
    """`39 (2 not read)`, `39 (2 lost)`."""
    if reader.lost:
        return f"{number(reader.steps)} ({reader.lost} lost)"
    return number(reader.steps) + (f" ({reader.dropped} not read)" if reader.dropped else "")


def once(cell: Callable[[StreamPart], str]) -> Callable[[StreamRow], str]:
    """A figure of the stream as a whole, in its first row."""
    return lambda row: cell(row.stream) if row.is_first else ""


def data_text(stream: StreamPart) -> str:
    """`38.4 MB`, `≥ 38.4 MB`, `not known`; `-` of a stream without steps."""
    if stream.bytes is None:
        return NOT_KNOWN if stream.steps else NOTHING
    return ("≥ " if stream.bytes_are == "at_least" else "") + size(stream.bytes)


def limit_text(stream: StreamPart) -> str:
    """The stage that limits the stream, `not known`, or `-` where the question does not apply."""
    return stream.limited_by or (NOT_KNOWN if stream.limit_unknown else NOTHING)


STREAM_COLUMNS: list[Column[StreamRow]] = [
    text_column("stream", lambda row: row.stream.name, EVERYWHERE),
    text_column("from, to", lambda row: f"{row.stream.writer} → {row.reader.stage}", EVERYWHERE),
    text_column("engine", once(lambda stream: f"{engine_text(stream)}, {stream.coupling}"), PAGE),
    text_column("engine", once(engine_text), ("terminal", "status"), gives_way=1),
    number_column("written", once(lambda stream: number(stream.steps)), EVERYWHERE, gives_way=2),
    number_column("read", lambda row: steps_read(row.reader), EVERYWHERE),
    number_column("data", once(data_text), EVERYWHERE, gives_way=3),
    number_column("throughput", once(lambda stream: rate(stream.throughput)), EVERYWHERE),
    number_column("transfer rate, written", once(lambda stream: rate(stream.transfer_rate)), PAGE),
    number_column("transfer rate, read", lambda row: rate(row.reader.transfer_rate), PAGE),
    number_column("writer waits", once(lambda stream: percent(stream.idle)), PAGE),
    text_column("limited by", once(limit_text), EVERYWHERE, gives_way=4),
]


def stream_table(report: Report, view: View) -> Table:
    """What went through each stream: a row per reader."""
    rows = [
        StreamRow(stream, reader, place == 0)
        for stream in report.streams
        for place, reader in enumerate(stream.readers)
    ]
    return make_table(STREAM_COLUMNS, rows, view)
