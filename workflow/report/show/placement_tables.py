"""The tables of the proved placement in report.html. Pure."""

from __future__ import annotations

from workflow.report.read.run_records import ProofTables, RanksOnNode, StreamResult
from workflow.report.show.text_table import Column, Table, make_table, text_column

# Of a large run the page has the first nodes; proof.json has all.
MOST_ROWS = 200
RANK_COLUMNS: list[Column[RanksOnNode]] = [
    text_column("stage", lambda each: each.stage),
    text_column("node", lambda each: each.host),
    text_column("ranks", lambda each: each.ranks),
    text_column("cores of each", lambda each: each.cores),
    text_column("GPUs", lambda each: each.gpus or "-"),
]
STREAM_COLUMNS: list[Column[StreamResult]] = [
    text_column("stream", lambda each: each.stream),
    text_column("way", lambda each: each.way or "-"),
    text_column("result", lambda each: each.result),
]


def placement_tables(proof: ProofTables | None) -> list[Table]:
    """Where the ranks were, and what crossed; [] without a proof."""
    if proof is None:
        return []
    tables = [make_table(RANK_COLUMNS, proof.ranks[:MOST_ROWS], "page")]
    return tables + ([make_table(STREAM_COLUMNS, proof.streams, "page")] if proof.streams else [])
