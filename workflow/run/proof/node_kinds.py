"""Cores and domains of nodes as the comparison needs them, made once for all nodes that are alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from workflow.run.proof.probe_answers import NodeFound, RankFound


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
