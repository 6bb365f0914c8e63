"""`wf plan --strategies STREAM`: what each strategy of distribution would cost. Nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from workflow.distribution import INNER, Block, Ranks, Shape
from workflow.errors import WfError, did_you_mean, listing, shortened
from workflow.formats.read_json import read_json
from workflow.formatting import percent, plural
from workflow.plan.plan_model import EndPlan, Plan
from workflow.plan.streams.distribution_strategy import (
    COMPARED,
    BlockLayout,
    ReadCost,
    blocks_of_line,
    blocks_of_rows,
    blocks_of_shape,
    read_cost,
)
from workflow.report.show.text_table import Column, Table, make_table, number_column, text_column


class StrategyRow(NamedTuple):
    """What one strategy would cost."""

    cost: ReadCost
    is_planned: bool


STRATEGY_COLUMNS: list[Column[StrategyRow]] = [
    text_column("strategy", lambda row: f"{row.cost.strategy} *" if row.is_planned else row.cost.strategy),
    number_column("requests", lambda row: str(row.cost.requests)),
    number_column("most", lambda row: str(row.cost.requests_most)),
    number_column("partners", lambda row: str(row.cost.partners_most)),
    number_column("mean", lambda row: f"{row.cost.partners_mean:.1f}"),
    number_column("remote", lambda row: percent(row.cost.remote_share)),
    number_column("imbalance", lambda row: f"{row.cost.imbalance:.2f}"),
    number_column("moved", lambda row: f"{row.cost.amplification:.2f}"),
]
MEANING = """requests: of all readers, and of the one with most
partners: writing ranks that one reader asks, most and mean
remote: part of the bytes that comes from another node; imbalance: most ÷ mean of what the readers get
moved: bytes moved ÷ bytes needed; *: the plan's"""


class Judged(NamedTuple):
    """The costs of every strategy for one reading stage; `lines` describe the data and the ranks."""

    stage: str
    end: EndPlan
    lines: list[str]
    figures: list[ReadCost]


def strategies_tables(plan: Plan, stream: str, blocks: str | None, shape: str | None) -> list[tuple[list[str], Table]]:
    """(lines to print before it, a table) for every reading stage of one stream; a row per strategy. See `judged`."""
    return [
        (
            each.lines,
            make_table(
                STRATEGY_COLUMNS, [StrategyRow(cost, _chosen(each.end, cost.strategy)) for cost in each.figures]
            ),
        )
        for each in judged(plan, stream, blocks, shape)
    ]


def strategies_json(plan: Plan, stream: str, blocks: str | None, shape: str | None) -> str:
    """The same as JSON: a list of `{stage, about, strategies: [{strategy, planned, requests, …}]}`; shares 0 to 1."""
    return json.dumps([
        {"stage": each.stage, "about": each.lines, "strategies": [_numbers(each.end, one) for one in each.figures]}
        for each in judged(plan, stream, blocks, shape)
    ], indent=2, ensure_ascii=False)  # fmt: skip


def _numbers(end: EndPlan, found: ReadCost) -> dict[str, Any]:
    return {
        "strategy": found.strategy, "planned": _chosen(end, found.strategy), "requests": found.requests,
        "requests_most": found.requests_most, "partners_most": found.partners_most,
        "partners_mean": found.partners_mean, "remote_share": found.remote_share, "imbalance": found.imbalance,
        "moved_by_needed": found.amplification,
    }  # fmt: skip


def judged(plan: Plan, stream: str, blocks: str | None, shape: str | None) -> list[Judged]:
    """Every strategy for every reading stage of one stream.

    `blocks`: rows of each writing rank, `1000,400,0`, or a JSON file of ADIOS2's BlocksInfo; `shape`:
    `64x64x64`, cut as a grid. Raises WfError when an option is malformed or the stream does not exist.
    """
    names = [each.name for each in plan.streams]
    if stream not in names:
        raise WfError(
            f"there is no stream `{shortened(stream)}`", did_you_mean(stream, names) or f"streams: {listing(names)}"
        )
    ends = [(stage.name, end) for stage in plan.stages for end in stage.ends if end.stream == stream and end.share]
    if not ends:
        hint = "its readers choose themselves what they read, or read whole files"
        raise WfError(f"nothing to distribute: no reader of stream {stream} reads by `step.share`", hint)
    writers = _ranks(ends[0][1], "writers")
    given = _known_blocks(plan, stream, writers.number) if blocks is None and shape is None else None
    given = given or read_blocks(blocks, shape, writers.number)
    head = [f"{stream}: {given.said}"]
    if not given.tiled:
        head.append("these blocks overlap or leave holes: they cannot be distributed, and slabs are read instead")
    if gathered := plan.reasons.get(f"streams.{stream}.blocks"):
        head += [f"here {gathered}", "the figures are those of an ADIOS2 with MPI"]
    found = []
    for stage, end in ends:
        readers = _ranks(end, "readers")
        sides = f"{_ranks_text(writers, 'writing')}, {_ranks_text(readers, 'reading')}"
        why = plan.reasons.get(f"streams.{stream}.read.{stage}.strategy", "")
        figures = [read_cost(each, given, writers, readers) for each in COMPARED]
        found.append(Judged(stage, end, [*head, f"{stage}: {sides}", f"  {_planned(end)}: {why}"], figures))
        head = []
    return found


def _known_blocks(plan: Plan, stream: str, writers: int) -> BlockLayout | None:
    """The data according to the plan: the largest variable if all shapes are numbers, or the bytes of a step."""
    written = next(end for stage in plan.stages for end in stage.ends if end.stream == stream and end.side == "write")
    shapes: dict[str, Shape] = {}
    for name, variable in written.variables.items():
        lengths = tuple(each for each in variable.shape or () if isinstance(each, int))
        if lengths and all(lengths) and len(lengths) == len(variable.shape or ()):
            shapes[name] = lengths
    # A box beside atoms, of which nobody knows how many there are, says nothing of the data.
    unknown = any(isinstance(each, str) for variable in written.variables.values() for each in variable.shape or ())
    if shapes and not unknown:
        name = max(shapes, key=lambda each: prod(shapes[each]))
        try:
            made = blocks_of_shape(shapes[name], writers)
        except WfError:
            return None  # too small for so many ranks
        return replace(made, said=f"{name}: {made.said}")
    each = (plan.stream(stream).step_size or 0) // writers
    if not each:
        return None
    made = blocks_of_rows([each] * writers, (), writers)
    return replace(made, said=f"{each} bytes of each writing rank, side by side")


def _ranks_text(ranks: Ranks, doing: str) -> str:
    return f"{plural(ranks.number, f'{doing} rank')} on {plural(len(ranks.nodes), 'node')}"


def read_blocks(blocks: str | None, shape: str | None, writers: int) -> BlockLayout:
    """The blocks that the options describe. Raises WfError."""
    sizes = _shape(shape) if shape is not None else None
    if blocks is None:
        return blocks_of_line(writers) if sizes is None else blocks_of_shape(sizes, writers)
    if not re.fullmatch(r"\d+(,\d+)*", blocks):
        return _from_file(Path(blocks), sizes)
    rows = [int(word) for word in blocks.split(",")]
    if sizes is not None and sizes[0] != sum(rows):
        raise WfError(f"--blocks has {sum(rows)} rows, --shape has {sizes[0]}", "leave --shape out, or make them agree")
    return blocks_of_rows(rows, sizes[1:] if sizes else (), writers)


def _shape(written: str) -> Shape:
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", written):
        raise WfError(f"--shape {written} is not a shape", "write the lengths, slowest axis first: --shape 64x64x64")
    return tuple(int(word) for word in written.split("x"))


def _from_file(path: Path, shape: Shape | None) -> BlockLayout:
    """What `json.dump(engine.BlocksInfo(name, step), file)` wrote, or the same with numbers instead of text."""
    try:
        found = tuple(_block(each) for each in read_json(path.read_bytes()))
    except OSError as error:
        hint = "give the rows of each writing rank, 1000,400,0, or a JSON file with ADIOS2's BlocksInfo"
        raise WfError(f"--blocks {path}: {error.strerror}", hint) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = 'it is a list of {"Start": [0, 0], "Count": [2, 4], "WriterID": 0}, as ADIOS2\'s BlocksInfo gives it'
        raise WfError(f"--blocks {path} is not a list of blocks: {error!r}", hint) from error
    if not found or len({len(block.extent) for block in found}) > 1:
        raise WfError(f"--blocks {path}: no blocks, or of different dimensions", "give the blocks of one global array")
    ends = [tuple(s + n for s, n in zip(block.start, block.extent, strict=True)) for block in found]
    whole = shape or tuple(map(max, *ends)) if len(ends) > 1 else shape or ends[0]
    return BlockLayout(found, whole, f"{len(found)} blocks of {' x '.join(map(str, whole))} elements ({path})")


def _block(written: Mapping[str, Any]) -> Block:
    start, extent = (
        tuple(int(n) for n in (written[key].split(",") if isinstance(written[key], str) else written[key]))
        for key in ("Start", "Count")
    )
    if len(start) != len(extent):
        raise ValueError(f"Start {start} and Count {extent} differ in dimensions")
    return Block(start, extent, int(written.get("WriterID", 0)))


def _ranks(end: EndPlan, side: str) -> Ranks:
    assert end.share is not None
    return Ranks(**getattr(end.share, side).model_dump())


def _chosen(end: EndPlan, strategy: str) -> bool:
    return strategy in (_planned(end), f"{_planned(end)}:{INNER}")


def _planned(end: EndPlan) -> str:
    return end.share.strategy if end.share is not None else ""
