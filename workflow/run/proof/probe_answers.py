"""What the probes have found, read from their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from workflow.core_set import parse_cores
from workflow.formats.json_lines import to_record


@dataclass(frozen=True)
class RankFound:
    """One rank. `rank` is its number in its stage, `cores` the processors that it may use."""

    stage: str
    rank: int
    host: str
    cores: tuple[int, ...]
    memory_nodes: str = ""
    gpus: Mapping[str, str] = field(default_factory=dict)
    nics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeFound:
    """One node: its processors, which of them are threads of one core, its domains, and its devices."""

    host: str
    online: tuple[int, ...]
    siblings: tuple[tuple[int, ...], ...] = ()
    numa: tuple[tuple[int, ...], ...] = ()
    l3: tuple[tuple[int, ...], ...] = ()
    memory_limit: int | None = None
    gpu_devices: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()

    @cached_property
    def core_of(self) -> dict[int, int]:
        """Processor → the core that it is a thread of, by the number of its first thread."""
        return {thread: min(core) for core in self.siblings for thread in core}

    def to_cores(self, processors: Iterable[int]) -> frozenset[int]:
        """The cores that these processors are threads of."""
        return frozenset(self.core_of.get(each, each) for each in processors)


@dataclass(frozen=True)
class DirectoryAnswer:
    """What a node has said of the run's directory. `token` is what it read; `answer` names the file that it wrote."""

    host: str
    token: str
    answer: str
    error: str = ""


@dataclass(frozen=True)
class PulseSeen:
    """A node has seen this state of the file that the supervisor keeps replacing."""

    host: str
    pulse: int


ProbeAnswer = RankFound | NodeFound | DirectoryAnswer | PulseSeen


def parse_answer(line: bytes) -> ProbeAnswer | None:
    """What a line of a probe says; None for lines of launchers."""
    record = to_record(line)
    if record is None:
        return None
    try:
        return _answer(record)
    except (ValueError, TypeError, KeyError):
        return None


def _answer(record: dict[str, Any]) -> ProbeAnswer | None:
    host = str(record["node"])
    if "stage" in record:
        return RankFound(
            str(record["stage"]), int(record["rank"]), host, parse_cores(record["cores"]),
            str(record["memory_nodes"]), dict(record["gpus"]), dict(record["nics"]),
        )  # fmt: skip
    if "online" in record:
        return NodeFound(
            host, parse_cores(record["online"]), _sets(record["siblings"]), _sets(record["numa"]), _sets(record["l3"]),
            record["memory_limit"], tuple(record["gpu_devices"]), tuple(record["interfaces"]),
        )  # fmt: skip
    if "token" in record:
        return DirectoryAnswer(host, str(record["token"]), str(record["answer"]), str(record.get("error", "")))
    return PulseSeen(host, int(record["pulse"])) if "pulse" in record else None


def _sets(texts: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    return tuple(parse_cores(text) for text in texts)
