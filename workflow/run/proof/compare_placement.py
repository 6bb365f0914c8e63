"""Compares where ranks are with the plan: those of the probes, and those of the running stages. Pure.

There is one difference for each thing that is wrong, for all ranks. The probe is another launch than that of the
stages, and an OpenMP runtime may bind a rank itself, so the guards report the ranks of the running stages, too. Which
of them did it is not seen: there a difference is a warning, once for each stage on each node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from workflow.core_set import format_cores, parse_cores
from workflow.formatting import plural
from workflow.launch.host_lists import is_same_host, short_host
from workflow.run.nodes.lost_nodes import RankSeen
from workflow.run.proof.placement_probe import ConcurrentStages, NodeFound, PlannedStage, RankFound
from workflow.run.state.events import NodeRanks
from workflow.spec.models.pipeline import ProofAspect, ProofByAspect, ProofPolicy, proof_policy

Weight = Literal["error", "warning"]


@dataclass(frozen=True)
class PlacementDifference:
    """What is not as planned, in a text for users; `stage` is empty where it is about a node."""

    level: Weight
    stage: str
    text: str
    aspect: ProofAspect = "placement"


def compare_placement(
    planned: Sequence[PlannedStage],
    found: Iterable[RankFound],
    nodes: Mapping[str, NodeFound],
    concurrent: ConcurrentStages,
) -> list[PlacementDifference]:
    """All that differs. `nodes` are by host."""
    kinds = NodeKinds(nodes)
    by_stage: dict[str, dict[int, RankFound]] = {plan.stage: {} for plan in planned}
    for rank in found:
        by_stage.setdefault(rank.stage, {})[rank.rank] = rank
    differences: list[PlacementDifference] = []
    for plan in planned:
        ranks = by_stage[plan.stage]
        differences += _missing(plan, ranks)
        differences += _wrong_nodes(plan, ranks)
        differences += _of_binding(
            [
                *_wrong_cores(plan, ranks, kinds),
                *_split_domains(plan, ranks, kinds),
                *_wrong_devices(plan, ranks),
            ]
        )
    differences += _of_binding(_shared_cores(planned, by_stage, kinds, concurrent))
    differences += _of_binding(_shared_gpus(planned, by_stage, concurrent))
    return differences


def _of_binding(differences: Iterable[PlacementDifference]) -> Iterator[PlacementDifference]:
    """What the ranks may use on their nodes, which the launcher binds them to."""
    return (dataclasses.replace(each, aspect="binding") for each in differences)


def under_policy(
    differences: Iterable[PlacementDifference], proof: ProofPolicy | ProofByAspect
) -> list[PlacementDifference]:
    """The differences as `proof:` has it: errors that it takes for warnings, and without what it does not examine."""
    found = []
    for each in differences:
        policy = proof_policy(proof, each.aspect)
        if policy != "off":
            found.append(dataclasses.replace(each, level="warning") if policy == "warn" else each)
    return found


def _missing(plan: PlannedStage, ranks: Mapping[int, RankFound]) -> Iterator[PlacementDifference]:
    missing = [rank for rank in range(plan.ranks) if rank not in ranks]
    if missing:
        count = f"{len(ranks)} of {plural(plan.ranks, 'rank')} of {plan.stage} answered"
        yield PlacementDifference("error", plan.stage, f"{count}: {_ranks(missing)} did not")
    more = sorted(rank for rank in ranks if rank >= plan.ranks)
    if more:
        text = f"{plan.stage} was started with {plural(len(ranks), 'rank')}, the plan has {plan.ranks}"
        yield PlacementDifference("error", plan.stage, text)


def _wrong_nodes(plan: PlannedStage, ranks: Mapping[int, RankFound]) -> Iterator[PlacementDifference]:
    hosts = {short_host(rank.host) for rank in ranks.values()}
    if ranks and len(ranks) == plan.ranks and len(hosts) < plan.nodes:
        names, wanted = ", ".join(sorted(hosts)), f"the plan has {plan.nodes}" + _of(plan.hosts)
        yield PlacementDifference(
            "error", plan.stage, f"{plan.stage} runs on {plural(len(hosts), 'node')} ({names}), {wanted}"
        )
        return
    wrong = [
        (number, rank)
        for number, rank in sorted(ranks.items())
        if plan.host(number) and not is_same_host(rank.host, plan.host(number))
    ]
    if wrong:
        number, rank = wrong[0]
        text = f"rank {number} of {plan.stage} is on {rank.host}, the plan has it on {plan.host(number)}"
        yield PlacementDifference("error", plan.stage, text + _and_more(len(wrong)))
        return
    counts: dict[str, int] = {}
    for rank in ranks.values():
        counts[rank.host] = counts.get(rank.host, 0) + 1
    crowded = [(host, count) for host, count in sorted(counts.items()) if count > plan.ranks_per_node]
    if crowded:
        host, count = crowded[0]
        text = f"{plural(count, 'rank')} of {plan.stage} are on {host}, the plan has {plan.ranks_per_node} on a node"
        yield PlacementDifference("error", plan.stage, text)


def _wrong_cores(plan: PlannedStage, ranks: Mapping[int, RankFound], kinds: NodeKinds) -> Iterator[PlacementDifference]:
    """Ranks that may run beside their cores, or not on all of them."""
    bound = [frozenset(cores) for cores in plan.cores]
    unbound, elsewhere, fewer = [], [], []
    for number, rank in sorted(ranks.items()):
        wanted = bound[number % plan.ranks_per_node] if bound and number < plan.ranks else frozenset[int]()
        kind, cores = kinds.of(rank), kinds.cores(rank)
        if not wanted or cores == wanted:
            continue
        if cores > wanted and kind is not None and cores == kind.all_cores:
            unbound.append((number, rank, cores, wanted))
        elif cores < wanted:
            fewer.append((number, rank, cores, wanted))
        else:
            elsewhere.append((number, rank, cores, wanted))
    for wrong, says in (
        (unbound, "may use all {has} of {host}, the plan binds it to {wanted}: its launcher has not bound it"),
        (elsewhere, "may use {has} of {host}, the plan binds it to {wanted}"),
        (fewer, "may use only {has} of {host}, the plan has {wanted}"),
    ):
        if wrong:
            number, rank, cores, wanted = wrong[0]
            text = says.format(has=named_cores(cores), host=rank.host, wanted=named_cores(wanted))
            yield PlacementDifference(
                "error", plan.stage, f"rank {number} of {plan.stage} {text}{_and_more(len(wrong))}"
            )


def _split_domains(
    plan: PlannedStage, ranks: Mapping[int, RankFound], kinds: NodeKinds
) -> Iterator[PlacementDifference]:
    """Ranks over more L3 or NUMA domains than their number of cores needs, where the plan leaves the cores to the
    launcher, or has them in one domain of the site that is none of the node."""
    if not plan.cores_per_rank:
        return
    for name in ("L3 cache", "NUMA domain"):
        split: dict[tuple[NodeKind, frozenset[int]], int] = {}  # → how many domains too many
        wrong = []
        for number, rank in sorted(ranks.items()):
            kind, cores = kinds.of(rank), kinds.cores(rank)
            if kind is None:
                continue
            if (kind, cores) not in split:
                split[kind, cores] = _too_many(cores, kind, name)
            if used := split[kind, cores]:
                wrong.append((number, rank, cores, used))
        if wrong:
            number, rank, cores, used = wrong[0]
            text = f"rank {number} of {plan.stage} uses {plural(used, name)} of {rank.host} with {named_cores(cores)}"
            yield PlacementDifference("warning", plan.stage, text + _and_more(len(wrong)))


def _too_many(cores: frozenset[int], kind: NodeKind, name: str) -> int:
    """Over how many domains these cores are spread, where fewer would do; 0 where not."""
    domains = kind.domains[name]
    used = sum(bool(cores & domain) for domain in domains)
    return used if used > _fewest(len(cores), domains) and cores != kind.all_cores else 0


def _fewest(count: int, domains: Sequence[frozenset[int]]) -> int:
    """How many of these domains so many cores need."""
    left, needed = count, 0
    for size in sorted((len(domain) for domain in domains), reverse=True):
        if left <= 0:
            break
        left, needed = left - size, needed + 1
    return max(1, needed)


def _wrong_devices(plan: PlannedStage, ranks: Mapping[int, RankFound]) -> Iterator[PlacementDifference]:
    counts = [
        (number, rank, len(devices), len(plan.gpus_of(number)))
        for number, rank in sorted(ranks.items())
        if number < plan.ranks and plan.gpus_of(number) and (devices := _gpus(rank)) is not None
    ]
    wrong = [each for each in counts if each[2] != each[3]]
    if wrong:
        number, rank, has, wanted = wrong[0]
        text = f"rank {number} of {plan.stage} sees {plural(has, 'GPU')} of {rank.host}, the plan has {wanted}"
        yield PlacementDifference("error", plan.stage, text + _and_more(len(wrong)))
    bare = [
        number
        for number, rank in sorted(ranks.items())
        if number < plan.ranks and plan.gpus_of(number) and _gpus(rank) is None
    ]
    if bare:
        text = f"rank {bare[0]} of {plan.stage} is not restricted to its GPUs: no variable of its launcher names any"
        yield PlacementDifference(
            "error" if plan.ranks_per_node > 1 else "warning", plan.stage, text + _and_more(len(bare))
        )


def _shared_cores(
    planned: Sequence[PlannedStage],
    by_stage: Mapping[str, Mapping[int, RankFound]],
    kinds: NodeKinds,
    concurrent: ConcurrentStages,
) -> list[PlacementDifference]:
    """Cores with two ranks that may run at the same time, both of which are bound and have cores of their own."""
    users: dict[str, dict[int, list[tuple[str, int]]]] = {}
    for plan in planned:
        for number, rank in sorted(by_stage[plan.stage].items()) if plan.own_cores else ():
            kind, cores = kinds.of(rank), kinds.cores(rank)
            if kind is not None and (cores != kind.all_cores or len(cores) == 1):
                its = users.setdefault(rank.host, {})
                for core in cores:
                    its.setdefault(core, []).append((plan.stage, number))
    shared = [
        (host, core, ranks) for host, its in sorted(users.items()) for core, ranks in sorted(its.items()) if ranks[1:]
    ]
    pairs: dict[tuple[str, str], list[str]] = {}
    for host, core, ranks in shared:
        for index, (stage, number) in enumerate(ranks):
            for other, its_rank in ranks[index + 1 :]:
                if other == stage or concurrent.may_overlap(stage, other):
                    text = f"core {core} of {host} has rank {number} of {stage} and rank {its_rank} of {other}"
                    pairs.setdefault((stage, other), []).append(text)
    return [
        PlacementDifference("error", other, texts[0] + _and_more(len(texts), "core"))
        for (_, other), texts in pairs.items()
    ]


def _shared_gpus(
    planned: Sequence[PlannedStage], by_stage: Mapping[str, Mapping[int, RankFound]], concurrent: ConcurrentStages
) -> list[PlacementDifference]:
    users: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
    for plan in planned:
        for number, rank in sorted(by_stage[plan.stage].items()) if plan.gpus else ():
            for variable, value in rank.gpus.items():
                for device in filter(None, value.split(",")):
                    users.setdefault((rank.host, variable, device), []).append((plan.stage, number))
    pairs: dict[tuple[str, str], list[str]] = {}
    for (host, _, device), ranks in sorted(users.items()):
        for index, (stage, number) in enumerate(ranks):
            for other, its in ranks[index + 1 :]:
                if other == stage or concurrent.may_overlap(stage, other):
                    text = f"GPU {device} of {host} is seen by rank {number} of {stage} and rank {its} of {other}"
                    pairs.setdefault((stage, other), []).append(text)
    return [
        PlacementDifference("error", other, texts[0] + _and_more(len(texts), "GPU"))
        for (_, other), texts in pairs.items()
    ]


def _gpus(rank: RankFound) -> list[str] | None:
    """The devices that a rank sees; None where no variable restricts it."""
    values = [value.split(",") for value in rank.gpus.values()]
    return min(([each for each in value if each] for value in values), key=len, default=None)


def named_cores(cores: Iterable[int]) -> str:
    """`core 3`, `cores 0-2`."""
    cores = sorted(cores)
    return f"core{'' if len(cores) == 1 else 's'} {format_cores(cores)}"


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'' if len(numbers) == 1 else 's'} {format_cores(numbers)}"


def _and_more(count: int, what: str = "rank") -> str:
    return "" if count < 2 else f" (and {plural(count - 1, f'more {what}')})"


def _of(hosts: Sequence[str]) -> str:
    return f" ({', '.join(hosts[:8])}{', …' if len(hosts) > 8 else ''})" if hosts else ""


class NodeKind:
    """Nodes with the same processors. Cores are named by the number of their first thread."""

    def __init__(self, node: NodeFound) -> None:
        self._node = node
        self._cores: dict[tuple[int, ...], frozenset[int]] = {}

    @cached_property
    def all_cores(self) -> frozenset[int]:
        """Those of the node."""
        return self.cores(self._node.online)

    @cached_property
    def domains(self) -> dict[str, list[frozenset[int]]]:
        """The cores of each domain."""
        domains = {"L3 cache": self._node.l3, "NUMA domain": self._node.numa}
        return {name: [self.cores(each) for each in its] for name, its in domains.items()}

    def cores(self, processors: tuple[int, ...]) -> frozenset[int]:
        """The cores that these processors are threads of."""
        if processors not in self._cores:
            self._cores[processors] = self._node.to_cores(processors)
        return self._cores[processors]


class NodeKinds:
    """The kinds of all nodes, by host."""

    def __init__(self, nodes: Mapping[str, NodeFound]) -> None:
        kinds: dict[tuple[object, ...], NodeKind] = {}
        self._of = {
            host: kinds.setdefault((node.online, node.siblings, node.numa, node.l3), NodeKind(node))
            for host, node in nodes.items()
        }

    def of(self, rank: RankFound) -> NodeKind | None:
        """That of the rank's node; None where the node has not said what it has."""
        return self._of.get(rank.host)

    def cores(self, rank: RankFound) -> frozenset[int]:
        """The cores that a rank may use; its processors, where nothing is known of its node."""
        kind = self._of.get(rank.host)
        return frozenset(rank.cores) if kind is None else kind.cores(rank.cores)


# A rank has other cores while its launcher starts it.
SETTLED_S = 2.0


class RankWatch:
    """Takes what has changed. `nodes`: what the probes found, by host."""

    def __init__(self, planned: Iterable[PlannedStage], nodes: Mapping[str, NodeFound]) -> None:
        self._planned = {plan.stage: plan for plan in planned}
        self._nodes = nodes
        self._pending: dict[tuple[str, int], tuple[float, RankSeen]] = {}
        self._told: set[tuple[str, str]] = set()

    def look(self, changed: Iterable[RankSeen], now: float) -> list[NodeRanks]:
        """The warnings that are due."""
        for rank in changed:
            key = rank.stage, rank.rank
            if self._differs(rank):
                self._pending[key] = now, rank
            else:
                self._pending.pop(key, None)
        due = [key for key, (since, _) in self._pending.items() if now - since >= SETTLED_S]
        found: dict[tuple[str, str], list[RankSeen]] = {}
        for key in due:
            rank = self._pending.pop(key)[1]
            found.setdefault((rank.stage, rank.host), []).append(rank)
        new = {key: ranks for key, ranks in found.items() if key not in self._told}
        self._told |= set(new)
        return [self._warning(ranks, now) for ranks in new.values()]

    def _differs(self, rank: RankSeen) -> bool:
        plan = self._planned.get(rank.stage)
        if plan is None or not plan.cores:
            return False
        return self._cores(rank) != plan.cores_of(rank.rank)

    def _cores(self, rank: RankSeen) -> frozenset[int]:
        node = self._nodes.get(rank.host)
        processors = parse_cores(rank.cores)
        return frozenset(processors) if node is None else node.to_cores(processors)

    def _warning(self, ranks: list[RankSeen], now: float) -> NodeRanks:
        first = min(ranks)
        plan = self._planned[first.stage]
        more = f" (and {plural(len(ranks) - 1, 'more rank')} there)" if len(ranks) > 1 else ""
        text = (
            f"rank {first.rank} of {first.stage} now may use {named_cores(self._cores(first))} of {first.host}, the "
            f"plan binds it to {named_cores(plan.cores_of(first.rank))}{more}: its launcher or its program did that"
        )
        seen = [(each.rank, each.pid, each.cores) for each in sorted(ranks)]
        return NodeRanks(now, first.node, first.host, first.stage, seen, text)
