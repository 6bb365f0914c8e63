"""What was proved before the stages started: `proof.json` of a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workflow.core_set import format_cores
from workflow.run.proof.compare_placement import PlacementDifference, RankWatch
from workflow.run.proof.placement_probe import NodeFound, PlannedStage, RankFound
from workflow.run.state.events import ProofTaken

PROOF_VERSION = 1
ProofState = Literal["proved", "differs", "refused"]


@dataclass(frozen=True)
class StreamTried:
    """A smoke stream. `seconds` until its last step had arrived, from the start of the proof; None when it did not, and
    `text` says why. `taken` is the transport that ADIOS2's log names; empty where it names none."""

    stream: str
    transport: str
    writer: str
    readers: tuple[str, ...]
    seconds: float | None
    text: str = ""
    taken: str = ""


@dataclass(frozen=True)
class DirectorySeen:
    """How a node sees the run's directory: seconds until it saw a change of the supervisor, and the supervisor one of
    the node; None where that did not happen."""

    host: str
    change_seen_s: float | None
    answer_seen_s: float | None


@dataclass(frozen=True)
class Proof:
    """All of it. `state`: `proved`; `differs`: there are warnings; `refused`: there is an error, which `proof:`
    has made no warning."""

    state: ProofState
    seconds: float
    probe_s: float
    streams_s: float
    differences: tuple[PlacementDifference, ...] = ()
    planned: tuple[PlannedStage, ...] = ()
    ranks: tuple[RankFound, ...] = ()
    nodes: Mapping[str, NodeFound] = field(default_factory=dict)
    streams: tuple[StreamTried, ...] = ()
    untried: Mapping[str, str] = field(default_factory=dict)
    directory: tuple[DirectorySeen, ...] = ()

    def to_event(self, t: float) -> ProofTaken:
        """What the run's events keep of it."""
        differences = sorted(self.differences, key=lambda each: each.level)
        return ProofTaken(
            t, self.state, len(self.nodes), len(self.ranks), round(self.seconds, 3),
            [each.text for each in differences], differences[0].stage if self.state == "refused" else "",
            differences[0].aspect if self.state == "refused" else "",
        )  # fmt: skip

    def rank_watch(self) -> RankWatch:
        """Compares the real ranks with this."""
        return RankWatch(self.planned, self.nodes)

    def to_json(self) -> str:
        """The text of the file."""
        record: dict[str, Any] = {
            "proof_version": PROOF_VERSION,
            "state": self.state,
            "seconds": round(self.seconds, 3),
            "probe_s": round(self.probe_s, 3),
            "streams_s": round(self.streams_s, 3),
            "differences": [dataclasses.asdict(each) for each in self.differences],
            "streams": [dataclasses.asdict(each) for each in self.streams],
            "untried": dict(self.untried),
            "directory": [dataclasses.asdict(each) for each in self.directory],
            "nodes": {host: _node(node) for host, node in sorted(self.nodes.items())},
            "stages": _stages(self.ranks),
        }
        return json.dumps(record, indent=1) + "\n"


def _node(node: NodeFound) -> dict[str, Any]:
    return {
        "online": format_cores(node.online),
        "threads_per_core": max(map(len, node.siblings), default=1),
        "numa": [format_cores(domain) for domain in node.numa],
        "l3": [format_cores(domain) for domain in node.l3],
        "memory_limit": node.memory_limit,
        "gpu_devices": list(node.gpu_devices),
        "interfaces": list(node.interfaces),
    }


def _stages(ranks: tuple[RankFound, ...]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for rank in sorted(ranks, key=lambda each: (each.stage, each.rank)):
        record: dict[str, Any] = {"rank": rank.rank, "host": rank.host, "cores": format_cores(rank.cores)}
        record |= {key: dict(value) for key, value in (("gpus", rank.gpus), ("nics", rank.nics)) if value}
        if rank.memory_nodes:
            record["memory_nodes"] = rank.memory_nodes
        found.setdefault(rank.stage, []).append(record)
    return found
