"""The queue of repetitions that wait for free nodes, in the order in which they should start. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workflow.campaign.planning.free_nodes import Footprint

REVISED_BY = 0.1
"""Smallest relative change of an estimate that changes the order."""


@dataclass(frozen=True)
class Request:
    """One repetition that is to run."""

    nodes: int
    cores_per_node: int | None
    """None: whole nodes."""
    expected_s: float
    block: int = 0
    """Which block of the campaign's order it belongs to: earlier blocks come first."""

    def __post_init__(self) -> None:
        if self.nodes < 1 or (self.cores_per_node is not None and self.cores_per_node < 1):
            raise ValueError(f"a repetition needs nodes and cores: {self}")
        if not 0 <= self.expected_s < math.inf:
            raise ValueError(f"how long a repetition takes must be known: {self}")

    @property
    def footprint(self) -> Footprint:
        """How much room it needs."""
        return Footprint(self.nodes, self.cores_per_node)


class WaitingRequests:
    """Requests by their index: the earlier block first, in a block the longest, then the largest.

    Those of one footprint fit or do not fit together. So each footprint has a list of its own, in which the first that
    ends in time is found in O(log n).
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self._waiting = [True] * len(self.requests)
        self._count = len(self.requests)
        self._arrange()

    def __len__(self) -> int:
        return self._count

    @property
    def footprints(self) -> list[Footprint]:
        """The footprints of all requests, also of those that wait no more."""
        return list(self._lanes)

    def first(self, footprint: Footprint, limit_s: float = math.inf) -> int | None:
        """The first request of this footprint that is expected to take at most `limit_s`."""
        return self._lanes[footprint].first(limit_s)

    def rank(self, index: int) -> int:
        """Its place in the order: smaller ones come first."""
        return self._rank[index]

    def remove(self, index: int) -> None:
        """It waits no longer."""
        if not self._waiting[index]:
            raise ValueError(f"request {index} does not wait")
        self._waiting[index] = False
        self._count -= 1
        self._lanes[self.requests[index].footprint].remove(index)

    def put_back(self, index: int) -> None:
        """It waits again, where it stood before."""
        if self._waiting[index]:
            raise ValueError(f"request {index} waits already")
        self._waiting[index] = True
        self._count += 1
        self._lanes[self.requests[index].footprint].put_back(index, self.requests[index].expected_s)

    def revise(self, expected_s: Mapping[int, float]) -> bool:
        """Better estimates of some requests. False when none has changed by a tenth: the order stays as it is."""
        changed = False
        for index, seconds in expected_s.items():
            before = self.requests[index].expected_s
            if abs(seconds - before) > REVISED_BY * before:
                self.requests[index] = replace(self.requests[index], expected_s=seconds)
                changed = True
        if changed:
            self._arrange()
        return changed

    def _arrange(self) -> None:
        by_footprint: dict[Footprint, list[int]] = {}
        self._rank = [0] * len(self.requests)
        for rank, index in enumerate(sorted(range(len(self.requests)), key=self._order)):
            self._rank[index] = rank
            by_footprint.setdefault(self.requests[index].footprint, []).append(index)
        self._lanes = {
            footprint: _Lane(indices, [self.requests[i].expected_s if self._waiting[i] else math.inf for i in indices])
            for footprint, indices in by_footprint.items()
        }

    def _order(self, index: int) -> tuple[int, float, int, int]:
        request = self.requests[index]
        return request.block, -request.expected_s, -request.nodes, index


class _Lane:
    """Requests of one footprint in their order, as a tree of the shortest expected time below each node."""

    def __init__(self, indices: list[int], expected_s: list[float]) -> None:
        self._indices = indices
        self._first: int | None = None
        """The first position that waits; None: not looked up since a change."""
        self._position = {index: position for position, index in enumerate(indices)}
        self._size = 1 << max(len(indices) - 1, 0).bit_length()
        padding = [math.inf] * (self._size - len(indices))
        self._least = [math.inf] * self._size + expected_s + padding
        for node in range(self._size - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def first(self, limit_s: float) -> int | None:
        if self._least[1] > limit_s or self._least[1] == math.inf:
            return None
        if self._first is None:
            self._first = self._descend(_LONGEST_S)
        position = self._first
        if self._least[self._size + position] > limit_s:
            position = self._descend(limit_s)
        return self._indices[position]

    def _descend(self, limit_s: float) -> int:
        """The first position with at most `limit_s`, which there is; inf in the tree says that it waits no more."""
        least, node = self._least, 1
        while node < self._size:
            node *= 2
            if least[node] > limit_s:
                node += 1
        return node - self._size

    def remove(self, index: int) -> None:
        self.put_back(index, math.inf)

    def put_back(self, index: int, expected_s: float) -> None:
        least = self._least
        self._first = None
        node = self._size + self._position[index]
        least[node] = expected_s
        while node > 1:
            node //= 2
            shorter = min(least[2 * node], least[2 * node + 1])
            if least[node] == shorter:
                return
            least[node] = shorter


_LONGEST_S = math.nextafter(math.inf, 0)
