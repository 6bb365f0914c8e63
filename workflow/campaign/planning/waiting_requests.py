"""The repetitions of a campaign that wait for room, in the order in which they are wanted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workflow.campaign.planning.free_nodes import Shape

REVISED_BY = 0.1
"""Smallest relative change of an estimate that changes the order."""

Rank = tuple[int, float, int, int]


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
    def shape(self) -> Shape:
        """How much room it needs."""
        return Shape(self.nodes, self.cores_per_node)


class WaitingRequests:
    """Requests by their index: the earlier block first, in a block the longest, of these the largest.

    Those of one shape fit or do not fit together. So each shape has a list of its own, in which the first that ends in
    time is found in O(log n).
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self._waiting = [True] * len(self.requests)
        self._count = len(self.requests)
        self._arrange()

    def __len__(self) -> int:
        return self._count

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of all requests, also of those that wait no more."""
        return list(self._lanes)

    def first(self, shape: Shape, limit_s: float = math.inf) -> int | None:
        """The first request of this shape that is expected to take at most `limit_s`."""
        return self._lanes[shape].first(limit_s)

    def rank(self, index: int) -> Rank:
        """Its place in the order: smaller ones come first. Equal ones keep the order in which they were given."""
        request = self.requests[index]
        return request.block, -request.expected_s, -request.nodes, index

    def remove(self, index: int) -> None:
        """It waits no longer."""
        if not self._waiting[index]:
            raise ValueError(f"request {index} does not wait")
        self._waiting[index] = False
        self._count -= 1
        self._lanes[self.requests[index].shape].remove(index)

    def put_back(self, index: int) -> None:
        """It waits again, where it stood before."""
        if self._waiting[index]:
            raise ValueError(f"request {index} waits already")
        self._waiting[index] = True
        self._count += 1
        self._lanes[self.requests[index].shape].put_back(index, self.requests[index].expected_s)

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
        by_shape: dict[Shape, list[int]] = {}
        for index in sorted(range(len(self.requests)), key=self.rank):
            by_shape.setdefault(self.requests[index].shape, []).append(index)
        self._lanes = {
            shape: _Lane(indices, [self.requests[i].expected_s if self._waiting[i] else math.inf for i in indices])
            for shape, indices in by_shape.items()
        }


class _Lane:
    """Requests of one shape in their order, as a tree of the shortest expected time below each node."""

    def __init__(self, indices: list[int], expected_s: list[float]) -> None:
        self._indices = indices
        self._position = {index: position for position, index in enumerate(indices)}
        self._size = 1 << max(len(indices) - 1, 0).bit_length()
        padding = [math.inf] * (self._size - len(indices))
        self._least = [math.inf] * self._size + expected_s + padding
        for node in range(self._size - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def first(self, limit_s: float) -> int | None:
        least = self._least
        if least[1] > limit_s or least[1] == math.inf:
            return None
        limit_s = min(limit_s, _LONGEST_S)  # inf in the tree says that a request waits no more
        node = 1
        while node < self._size:
            node *= 2
            if least[node] > limit_s:
                node += 1
        return self._indices[node - self._size]

    def remove(self, index: int) -> None:
        self.put_back(index, math.inf)

    def put_back(self, index: int, expected_s: float) -> None:
        least = self._least
        node = self._size + self._position[index]
        least[node] = expected_s
        while node > 1:
            node //= 2
            shorter = min(least[2 * node], least[2 * node + 1])
            if least[node] == shorter:
                return
            least[node] = shorter


_LONGEST_S = math.nextafter(math.inf, 0)
