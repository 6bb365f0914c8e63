"""The drawing of a pipeline in characters: stages below each other, streams as rails on their left. Pure.

It is as wide as the terminal at most, whatever the shape of the pipeline:

     ┌─────────────────────────┐
     │ md  simulation: lammps  │
     │ 1 rank, node 0          │
     └─┬───────────────────────┘
 ┌─────┘ atoms: SST tcp, live, queue 2, block
 │   ┌─────────────────────────┐
 └──►│ xrd  analysis: …        │
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import Literal, NamedTuple

from workflow.report.graph.pipeline_graph import GraphStage, GraphStream, PipelineGraph

NARROWEST_BOX = 30
_RAIL = {"live": "│", "after": "╎"}
_LINE = {"live": "─", "after": "╌"}


class _Row(NamedTuple):
    """A line of text on the right, and the stream that begins or arrives there."""

    text: str
    stream: str = ""
    end: Literal["begins", "arrives", ""] = ""


@dataclass(frozen=True)
class _Rail:
    """A stream on the left: the first and the last row that it joins, its column from the right, and whether it is
    live."""

    top: int
    bottom: int
    column: int
    coupling: Literal["live", "after"]


def graph_lines(graph: PipelineGraph, width: int = 80) -> list[str]:
    """The lines of the drawing, of `width` characters at most as long as the rails leave room for the boxes."""
    columns = len({each.column for each in _rails(graph, _rows(graph, width)).values()})
    rows = _rows(graph, max(NARROWEST_BOX, width - _gutter(columns)))
    rails = _rails(graph, rows)
    return [graph.title, *(_drawn(number, row, rails, columns) for number, row in enumerate(rows))]


def _gutter(columns: int) -> int:
    """Characters left of the boxes."""
    return 2 * columns + 2 if columns else 0


def _rows(graph: PipelineGraph, width: int) -> list[_Row]:
    rows: list[_Row] = []
    for stage in graph.stages:
        reads = [stream.name for stream in graph.streams if stage.name in stream.readers]
        writes = [stream for stream in graph.streams if stream.writer == stage.name]
        lines = _box_lines(stage, width - 4)
        lines += [""] * (len(reads) - len(lines))
        inside = max(map(len, lines))
        rows.append(_Row(f"┌{'─' * (inside + 2)}┐"))
        for index, line in enumerate(lines):
            arrival: tuple[str, Literal["arrives", ""]] = (reads[index], "arrives") if index < len(reads) else ("", "")
            rows.append(_Row(f"│ {line:{inside}} │", *arrival))
        below = f"└─┬{'─' * inside}┘" if writes else f"└{'─' * (inside + 2)}┘"
        rows.append(_Row(below))
        for stream in writes:
            rows += _label_rows(stream, is_last=stream is writes[-1], width=width)
    return rows


def _box_lines(stage: GraphStage, room: int) -> list[str]:
    texts = [f"{stage.name}  {stage.kind_text}: {stage.program}", stage.where]
    texts += [f"reads {file}" for file in stage.reads] + [f"writes {file}" for file in stage.writes]
    return [line for text in texts for line in wrap(text, room, subsequent_indent="  ", break_on_hyphens=False)]


def _label_rows(stream: GraphStream, is_last: bool, width: int) -> list[_Row]:
    """What is known of a stream, beside the line from the box of its writer to its rail."""
    text = ", ".join(each for each in (f"{stream.name}: {stream.way}", stream.held) if each)
    first, *others = wrap(text, width - 4, subsequent_indent="  ", break_on_hyphens=False)
    line, stem = _LINE[stream.coupling], " " if is_last else "│"
    return [
        _Row(f"{line * 2}{'┘' if is_last else '┤'} {first}", stream.name, "begins"),
        *(_Row(f"  {stem} {other}") for other in others),
    ]


def _rails(graph: PipelineGraph, rows: list[_Row]) -> dict[str, _Rail]:
    """The rails by their streams: short ones next to the boxes, so that they cross few others. Where nobody reads, as
    from the file of a spool, there is none."""
    begins = {row.stream: number for number, row in enumerate(rows) if row.end == "begins"}
    arrives = {
        stream.name: tuple(
            number for number, row in enumerate(rows) if row.end == "arrives" and row.stream == stream.name
        )
        for stream in graph.streams
    }
    rails: dict[str, _Rail] = {}
    ends = {name: (min(begins[name], *rows), max(begins[name], *rows)) for name, rows in arrives.items() if rows}
    read = [stream for stream in graph.streams if stream.name in ends]
    for stream in sorted(read, key=lambda each: ends[each.name][1] - ends[each.name][0]):
        top, bottom = ends[stream.name]
        taken = {rail.column for rail in rails.values() if rail.top <= bottom and top <= rail.bottom}
        column = next(each for each in range(len(rails) + 1) if each not in taken)
        rails[stream.name] = _Rail(top, bottom, column, stream.coupling)
    return rails


def _drawn(number: int, row: _Row, rails: dict[str, _Rail], columns: int) -> str:
    """A row with the rails on its left."""
    if not columns:
        return row.text
    own = rails.get(row.stream)
    signs = []
    for column in reversed(range(columns)):
        line = _LINE[own.coupling] if own is not None and column <= own.column else " "
        rail = next(
            (each for each in rails.values() if each.column == column and each.top <= number <= each.bottom),
            None,
        )
        signs.append(_sign(number, rail, own, line) + (line if own is not None and column <= own.column else " "))
    arrow = "►" if row.end == "arrives" else _LINE[own.coupling] if own is not None else " "
    return f" {''.join(signs)}{arrow}{row.text}".rstrip()


def _sign(number: int, rail: _Rail | None, own: _Rail | None, line: str) -> str:
    """Of one column: a rail that passes, one that the line of this row joins or crosses, or that line."""
    if rail is None:
        return line
    if rail is own:
        return "┌" if number == rail.top else "└" if number == rail.bottom else "├"
    return _RAIL[rail.coupling] if line == " " else "┼"
