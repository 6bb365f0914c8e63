"""The lines that a node guard sends to the supervisor, one JSON object each: written and parsed.

`{"node":"n1"}` alone is a beat. A line has more when something has changed since the last one: `ranks` that are new or
may use other cores, ranks that are `gone`, the `memory` evidence of their stages, and `load` and `free` memory.
All lines of all nodes come through the one pipe of their launcher. The beats of 10,000 nodes are 5,000 lines and 120 kB
a second, which the supervisor reads with about 0.1 % of a core. Only the standard library.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workflow.formats.read_json import read_json
from workflow.run.guard.rank_processes import RankProcess
from workflow.run.processes.kernel_oom_kills import MemoryFacts

# Between two lines of a guard that has nothing to say.
LINE_S = 2.0
# A pipe takes up to 4,096 bytes at once (pipe(7), PIPE_BUF): longer lines of two nodes could mix.
_RANKS_A_LINE = 40
_FIELDS = {each.name for each in dataclasses.fields(MemoryFacts)}


@dataclass(frozen=True)
class NodeLoad:
    """How busy a node is: its load average of one minute, and the bytes of memory that programs may still get."""

    load: float
    free_bytes: int


@dataclass(frozen=True)
class NodeReport:
    """One line of one guard. `sees_beats`: whether it sees beats in the lease; None where the line does not say.
    `ended`: why it ends all processes of the run on its node.
    """

    node: str
    ranks: tuple[RankProcess, ...] = ()
    gone: tuple[tuple[str, int], ...] = ()
    memory: Mapping[str, MemoryFacts] = field(default_factory=dict)
    load: NodeLoad | None = None
    sees_beats: bool | None = None
    text: str = ""
    ended: str = ""


def to_lines(
    node: str,
    *,
    ranks: Sequence[RankProcess] = (),
    gone: Sequence[tuple[str, int]] = (),
    memory: Mapping[str, MemoryFacts] | None = None,
    load: NodeLoad | None = None,
    sees_beats: bool | None = None,
    text: str = "",
    ended: str = "",
) -> Iterator[bytes]:
    """The lines of what has changed; a beat when nothing has."""
    first: dict[str, Any] = {"node": node}
    if load is not None:
        first |= {"load": load.load, "free": load.free_bytes}
    if sees_beats is not None:
        first["sees_beats"] = sees_beats
    for key, value in (("text", text), ("ended", ended)):
        if value:
            first[key] = value
    yield _line(first)
    for stage, facts in (memory or {}).items():
        # The end of a rank comes after what is known of it.
        yield _line({"node": node, "memory": {stage: dataclasses.asdict(facts)}})
    for start in range(0, len(ranks), _RANKS_A_LINE):
        found: dict[str, list[list[Any]]] = {}
        for each in ranks[start : start + _RANKS_A_LINE]:
            found.setdefault(each.stage, []).append([each.rank, each.pid, each.cores])
        yield _line({"node": node, "ranks": found})
    for start in range(0, len(gone), _RANKS_A_LINE):
        yield _line({"node": node, "gone": list(gone[start : start + _RANKS_A_LINE])})


def parse_line(line: bytes) -> NodeReport | None:
    """The report in a line; None for anything else: launchers print their own lines, and mix those of two nodes."""
    try:
        record = read_json(line)
        load = NodeLoad(float(record["load"]), int(record["free"])) if "load" in record else None
        return NodeReport(
            node=str(record["node"]),
            ranks=tuple(_ranks(record.get("ranks", {}))),
            gone=tuple((str(stage), int(rank)) for stage, rank in record.get("gone", ())),
            memory={stage: _facts(facts) for stage, facts in record.get("memory", {}).items()},
            load=load,
            sees_beats=record.get("sees_beats"),
            text=str(record.get("text", "")),
            ended=str(record.get("ended", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _ranks(found: Mapping[str, Iterable[Sequence[Any]]]) -> Iterator[RankProcess]:
    for stage, ranks in found.items():
        for rank, pid, cores in ranks:
            yield RankProcess(str(stage), int(rank), int(pid), str(cores))


def _facts(record: Mapping[str, Any]) -> MemoryFacts:
    return MemoryFacts(**{key: value for key, value in record.items() if key in _FIELDS})


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
