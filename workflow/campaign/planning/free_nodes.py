"""Which nodes and cores of a pilot are free, and where a request finds room. Pure: no clock, no machine.

Sets of nodes and of cores are integers used as bit masks, so that 512 nodes are searched in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Shape(NamedTuple):
    """How much room a repetition needs."""

    nodes: int
    cores_per_node: int | None
    """None: whole nodes, which it shares with no other repetition."""


@dataclass(frozen=True)
class Place:
    """Where a repetition runs within a pilot."""

    nodes: tuple[int, ...]
    """Indices of nodes."""
    cores: tuple[int, ...] = ()
    """Numbers of cores, the same on each of these nodes; empty: whole nodes."""


class FreeNodes:
    """The nodes of one pilot, which all have the same usable cores."""

    def __init__(self, nodes: int, cores: Sequence[int]) -> None:
        if nodes < 1 or not cores or len(set(cores)) < len(cores):
            raise ValueError(f"a pilot has nodes, and cores that differ: {nodes} nodes with cores {cores}")
        self.nodes = nodes
        self.cores = tuple(sorted(cores))
        self._every = _ones(len(self.cores))
        self._bit = {core: 1 << bit for bit, core in enumerate(self.cores)}
        self._free = [self._every] * nodes
        """Node → mask of its free cores."""
        self._with = [0] * (len(self.cores) + 1)
        """Number of free cores → mask of the nodes that have so many."""
        self._with[-1] = _ones(nodes)
        self._lost = 0

    def find(self, shape: Shape, avoiding: Place | None = None) -> Place | None:
        """Room for `shape` outside `avoiding`, or None.

        Whole nodes side by side where that is possible; cores on the fullest nodes that have enough of them, so that
        whole nodes stay free for those that need them.
        """
        count = shape.cores_per_node
        if count is None or count == len(self.cores):
            return self._find_nodes(shape.nodes, _mask(avoiding.nodes) if avoiding is not None else 0)
        if count > len(self.cores):
            return None
        if shape.nodes == 1:
            return self._find_on_one(count, avoiding)
        return self._find_on_several(shape.nodes, count, avoiding)

    def find_freed(self, shape: Shape, before: FreeNodes) -> Place | None:
        """Room for `shape` with as few as possible of the whole nodes that are free in `before`."""
        freed = self._with[-1] & ~before._with[-1]
        place = self.find(shape)
        if place is None or place.cores:
            return place
        nodes = [*_bits(freed), *_bits(self._with[-1] & ~freed)][: shape.nodes]
        return Place(tuple(sorted(nodes)))

    def fits_when_empty(self, shape: Shape) -> bool:
        """Whether there is room for `shape` once everything has ended, on the nodes that are not lost."""
        alive = self.nodes - self._lost.bit_count()
        return shape.nodes <= alive and (shape.cores_per_node or 0) <= len(self.cores)

    def take(self, place: Place) -> None:
        """Use a place. Raises ValueError when part of it is used already."""
        mask = self._cores_of(place)
        if any(self._free[node] & mask != mask for node in place.nodes):
            raise ValueError(f"{place} is not free")
        for node in place.nodes:
            self._set(node, self._free[node] & ~mask)

    def give(self, place: Place) -> None:
        """Return a place; lost nodes stay lost. Raises ValueError when part of it is free already."""
        mask = self._cores_of(place)
        if any(self._free[node] & mask for node in place.nodes):
            raise ValueError(f"{place} is free already")
        for node in place.nodes:
            if not self._lost >> node & 1:
                self._set(node, self._free[node] | mask)

    def lose(self, node: int) -> None:
        """Never use this node again."""
        self._lost |= 1 << node
        self._set(node, 0)

    @property
    def free_cores(self) -> int:
        """Cores that are free, on all nodes together."""
        return sum(count * nodes.bit_count() for count, nodes in enumerate(self._with))

    def copy(self) -> FreeNodes:
        """The same, to try out what follows."""
        twin = FreeNodes.__new__(FreeNodes)
        twin.__dict__ = {**self.__dict__, "_free": list(self._free), "_with": list(self._with)}
        return twin

    def _set(self, node: int, free: int) -> None:
        bit = 1 << node
        self._with[self._free[node].bit_count()] &= ~bit
        self._with[free.bit_count()] |= bit
        self._free[node] = free

    def _cores_of(self, place: Place) -> int:
        return sum(self._bit[core] for core in place.cores) if place.cores else self._every

    def _find_nodes(self, count: int, avoided: int) -> Place | None:
        free = self._with[-1] & ~avoided
        if free.bit_count() < count:
            return None
        side_by_side = _starts(free, count)
        if side_by_side:
            first = _lowest(side_by_side)
            return Place(tuple(range(first, first + count)))
        return Place(tuple(node for node, _ in zip(_bits(free), range(count), strict=False)))

    def _find_on_one(self, count: int, avoiding: Place | None) -> Place | None:
        avoided = _mask(avoiding.nodes) if avoiding is not None else 0
        for nodes in self._with[count:]:
            if nodes & ~avoided:
                node = _lowest(nodes & ~avoided)
                return Place((node,), self._numbers(_choose(self._free[node], count)))
        if avoiding is not None and avoiding.cores:
            # What is avoided on these nodes is some cores only.
            others = ~self._cores_of(avoiding)
            for node in avoiding.nodes:
                free = self._free[node] & others
                if free.bit_count() >= count:
                    return Place((node,), self._numbers(_choose(free, count)))
        return None

    def _find_on_several(self, nodes: int, count: int, avoiding: Place | None) -> Place | None:
        """The same cores on each node: a repetition is planned with one list of cores for all its nodes."""
        avoided = self._cores_of(avoiding) if avoiding is not None else 0
        where = _mask(avoiding.nodes) if avoiding is not None else 0
        free = {}
        for fullness in range(count, len(self.cores) + 1):
            for node in _bits(self._with[fullness]):
                left = self._free[node] & ~avoided if where >> node & 1 else self._free[node]
                if left.bit_count() >= count:
                    free[node] = left
        if len(free) < nodes:
            return None
        for pattern in dict.fromkeys(free.values()):
            cores = _choose(pattern, count)
            having = [node for node, left in free.items() if left & cores == cores]
            if len(having) >= nodes:
                return Place(tuple(sorted(having[:nodes])), self._numbers(cores))
        return None

    def _numbers(self, cores: int) -> tuple[int, ...]:
        return tuple(self.cores[bit] for bit in _bits(cores))


def _choose(free: int, count: int) -> int:
    """So many of the free cores: side by side where possible, and then from a multiple of their number.

    Cores that share a cache are numbered one after the other: 8 of 64 are one such group rather than parts of two.
    """
    starts = _starts(free, count)
    if starts:
        aligned = sum(1 << bit for bit in range(0, free.bit_length(), count))
        return _ones(count) << _lowest(starts & aligned or starts)
    chosen = 0
    for bit, _ in zip(_bits(free), range(count), strict=False):
        chosen |= 1 << bit
    return chosen


def _starts(mask: int, length: int) -> int:
    """The positions from which `length` bits in a row are set."""
    done = 1
    while done < length and mask:
        step = min(done, length - done)
        mask &= mask >> step
        done += step
    return mask


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield _lowest(mask)
        mask &= mask - 1


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _ones(count: int) -> int:
    return (1 << count) - 1


def _mask(positions: Sequence[int]) -> int:
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask
