"""The probe of the placement, seen from the supervisor: its launch lines, where ranks must be, answers.

The program that runs in the place of the stages is `rank_probe`; `compare_placement` compares its answers. Pure.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from workflow.core_set import parse_cores
from workflow.formats.json_lines import to_record
from workflow.launch.launch_request import LaunchRequest, RankLayout
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.launch_requests import GrantedNodes, stage_request
from workflow.plan.plan_model import Plan


@dataclass(frozen=True)
class PlannedStage:
    """The ranks of one stage: rank i is on `hosts[i // ranks_per_node]`; `hosts` is empty where they have no names.

    `cores`, `gpus` and `nics` have one entry for each rank of a node; empty: not bound by the plan, no GPUs, any
    adapter. `own_cores`: no other rank may be on the cores of these, whoever chooses them.
    """

    stage: str
    ranks: int
    nodes: int
    ranks_per_node: int
    hosts: Sequence[str] = ()
    cores: Sequence[Sequence[int]] = ()
    cores_per_rank: int = 0
    own_cores: bool = False
    gpus: Sequence[Sequence[int]] = ()
    nics: Sequence[str] = ()

    def host(self, rank: int) -> str:
        """Where a rank must be; empty where that is not known."""
        index = rank // self.ranks_per_node
        return self.hosts[index] if index < len(self.hosts) else ""

    def cores_of(self, rank: int) -> frozenset[int]:
        """The cores that a rank is bound to; none where it is not."""
        return frozenset(self.cores[rank % self.ranks_per_node]) if self.cores else frozenset()

    def gpus_of(self, rank: int) -> Sequence[int]:
        """The devices of a rank, as the site counts them."""
        return self.gpus[rank % self.ranks_per_node] if self.gpus else ()


class ConcurrentStages:
    """Which stages may run at the same time: those of which none waits for the end of the other."""

    def __init__(self, starts_after: Mapping[str, Sequence[str]]) -> None:
        self._before: dict[str, frozenset[str]] = {}
        for stage in starts_after:
            self._find(stage, starts_after)

    @classmethod
    def of(cls, plan: Plan) -> ConcurrentStages:
        """Of the stages of a plan."""
        return cls({stage.name: stage.starts_after for stage in plan.stages})

    def may_overlap(self, one: str, other: str) -> bool:
        """Whether they may run at the same time."""
        return one not in self._before[other] and other not in self._before[one]

    def _find(self, stage: str, starts_after: Mapping[str, Sequence[str]]) -> frozenset[str]:
        if stage not in self._before:
            waits = starts_after[stage]
            earlier = [self._find(each, starts_after) for each in waits]
            self._before[stage] = frozenset(waits).union(*earlier)
        return self._before[stage]


# On how many nodes the run's directory is looked at: more of them load its file system, and find no more.
LOOKING_NODES = 256
# Not imported: most runs are not probed.
_PROBE = Path(__file__).with_name("rank_probe.py")


@dataclass(frozen=True)
class ProbeLine:
    """The launch line of a stage with the probe in the place of its program, and where its ranks must be.

    `lookers` are those of its ranks that look at the run's directory.
    """

    request: LaunchRequest
    planned: PlannedStage
    lookers: frozenset[int]


def probe_lines(plan: Plan, folder: Path, received: GrantedNodes) -> list[ProbeLine]:
    """Every line of a launcher."""
    requests = [
        stage_request(stage, plan, str(folder / "lines" / stage.name), received)
        for stage in plan.stages
        if LAUNCHERS[stage.launch.launcher].starts_ranks
    ]
    lookers = choose_lookers([(each.name, each.layout) for each in requests])
    return [_line(each, folder, lookers.get(each.name, frozenset())) for each in requests]


def choose_lookers(layouts: Sequence[tuple[str, RankLayout]]) -> dict[str, frozenset[int]]:
    """Stage → ranks: the first rank of each node in one stage alone. Of many nodes some are taken, spread evenly."""
    first: dict[int, tuple[str, int]] = {}
    for stage, layout in layouts:
        for index in range(layout.nodes):
            first.setdefault(layout.first_node + index, (stage, index * layout.ranks_per_node))
    nodes = sorted(first)
    chosen: dict[str, frozenset[int]] = {}
    for node in nodes[:: max(1, math.ceil(len(nodes) / LOOKING_NODES))]:
        stage, rank = first[node]
        chosen[stage] = chosen.get(stage, frozenset()) | {rank}
    return chosen


def _line(request: LaunchRequest, folder: Path, lookers: frozenset[int]) -> ProbeLine:
    launcher, stage = LAUNCHERS[request.launcher], request.name
    numbers = ",".join(map(str, sorted(lookers))) or "-"
    start = [sys.executable, "-I", "-S", str(_PROBE), str(folder), stage]
    program = [*start, launcher.rank_variable, launcher.local_rank_variable, numbers]
    # Not in the stage's directory: a node that does not see it must be able to say so.
    probing = dataclasses.replace(request, name=f"probe {stage}", program=program, cwd="/")
    return ProbeLine(probing, _planned(request), lookers)


def _planned(request: LaunchRequest) -> PlannedStage:
    layout = request.layout
    # Without whole nodes the launcher chooses the cores.
    cores = layout.cores if request.whole_nodes or not LAUNCHERS[request.launcher].other_machines else ()
    return PlannedStage(
        stage=request.name,
        ranks=request.ranks,
        nodes=layout.nodes,
        ranks_per_node=layout.ranks_per_node,
        hosts=request.own_hosts,
        cores=cores,
        cores_per_rank=layout.cores_per_rank,
        own_cores=bool(cores) or (layout.cores_per_rank > 0 and not request.whole_nodes),
        gpus=layout.gpus,
        nics=layout.nics,
    )


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
