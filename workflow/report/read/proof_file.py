"""Reads proof.json of a run, as far as the report shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from workflow.core_set import format_cores
from workflow.formats.read_json import read_json
from workflow.run.proof.proof_model import PROOF_FILE


class RanksOnNode(NamedTuple):
    """The ranks of a stage on one node: their numbers, the cores of all of them, and GPUs, as the launcher set them."""

    stage: str
    host: str
    ranks: str
    cores: str
    gpus: str


class StreamResult(NamedTuple):
    """A smoke stream, or why there was none."""

    stream: str
    way: str
    result: str


class ProofTables(NamedTuple):
    """What was found."""

    ranks: list[RanksOnNode]
    streams: list[StreamResult]


def read_proof(run_dir: Path) -> ProofTables | None:
    """None where none was taken, or the file cannot be read."""
    try:
        record = read_json((run_dir / PROOF_FILE).read_bytes())
        return ProofTables(_ranks(record["stages"]), _streams(record))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _ranks(stages: dict[str, list[dict[str, Any]]]) -> list[RanksOnNode]:
    found = []
    for stage, ranks in sorted(stages.items()):
        hosts: dict[str, list[dict[str, Any]]] = {}
        for rank in ranks:
            hosts.setdefault(rank["host"], []).append(rank)
        for host, its in sorted(hosts.items()):
            cores = "; ".join(dict.fromkeys(rank["cores"] for rank in its))
            gpus = "; ".join(dict.fromkeys(value for rank in its for value in rank.get("gpus", {}).values()))
            found.append(RanksOnNode(stage, host, format_cores(rank["rank"] for rank in its), cores, gpus))
    return found


def _streams(record: dict[str, Any]) -> list[StreamResult]:
    tried = [
        StreamResult(
            each["stream"],
            f"{each['writer']} → {', '.join(each['readers'])} by {each['transport']}",
            each["text"] if each["seconds"] is None else f"3 steps in {each['seconds']:.2f} s",
        )
        for each in record["streams"]
    ]
    return tried + [StreamResult(name, "", f"not tried: {why}") for name, why in record["untried"].items()]
