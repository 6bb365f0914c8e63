"""Which nodes and cores of a pilot are free, and where a request finds room. Pure: no clock, no machine.

Sets of nodes and of cores are integers used as bit masks, so that 512 nodes are searched in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple


class Footprint(NamedTuple):
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

    @cached_property
    def node_mask(self) -> int:
        """The nodes as bits."""
        mask = 0
        for node in self.nodes:
            mask |= 1 << node
        return mask


class FreeNodes:
    """The nodes of one pilot, which all have the same usable cores."""

    def __init__(self, nodes: int, cores: Sequence[int]) -> None:
        if nodes < 1 or not cores or len(set(cores)) < len(cores):
            raise ValueError(f"a pilot has nodes, and cores that differ: {nodes} nodes with cores {cores}")
        self.nodes = nodes
        self.cores = tuple(sorted(cores))
        self._bit = {core: 1 << bit for bit, core in enumerate(self.cores)}
        self._whole = _ones(nodes)
        """Nodes that nothing uses."""
        self._shared: dict[int, int] = {}
        """Nodes of which some cores are used → their free cores."""
        self._with = [0] * len(self.cores)
        """Number of free cores → the shared nodes that have so many."""
        self._lost = 0

    @property
    def free_cores(self) -> int:
        """Cores that are free, on all nodes together."""
        return self._whole.bit_count() * len(self.cores) + sum(each.bit_count() for each in self._shared.values())

    def find(self, footprint: Footprint, avoiding: Place | None = None) -> Place | None:
        """Room for `footprint` outside `avoiding`, or None.

        Whole nodes side by side where that is possible; cores on the fullest nodes that have enough of them, so that
        whole nodes stay free for those that need them.
        """
        count = footprint.cores_per_node
        if count is None or count == len(self.cores):
            return self._find_nodes(footprint.nodes, avoiding.node_mask if avoiding is not None else 0)
        if count > len(self.cores):
            return None
        if footprint.nodes == 1:
            return self._find_on_one(count, avoiding)
        return self._find_on_several(footprint.nodes, count, avoiding)

    def find_freed(self, footprint: Footprint, before: FreeNodes) -> Place | None:
        """Room for `footprint` with as few as possible of the whole nodes that are free in `before`."""
        place = self.find(footprint)
        if place is None or place.cores:
            return place
        freed = self._whole & ~before._whole
        nodes = [*_bits(freed), *_bits(self._whole & ~freed)][: footprint.nodes]
        return Place(tuple(sorted(nodes)))

    def has_nodes(self, footprint: Footprint) -> bool:
        """Whether enough whole nodes are free for a footprint that needs such: a quick look before `find`."""
        return footprint.cores_per_node is not None or footprint.nodes <= self._whole.bit_count()

    def fits_when_empty(self, footprint: Footprint) -> bool:
        """Whether there is room for `footprint` once everything has ended, on the nodes that are not lost."""
        alive = self.nodes - self._lost.bit_count()
        return footprint.nodes <= alive and (footprint.cores_per_node or 0) <= len(self.cores)

    def take(self, place: Place) -> None:
        """Use a place. Raises ValueError when part of it is used already."""
        if not place.cores:
            if place.node_mask & ~self._whole:
                raise ValueError(f"{place} is not free")
            self._whole ^= place.node_mask
            return
        mask = self._mask(place.cores)
        if any(self._free_on(node) & mask != mask for node in place.nodes):
            raise ValueError(f"{place} is not free")
        for node in place.nodes:
            self._set(node, self._free_on(node) & ~mask)

    def give(self, place: Place) -> None:
        """Return a place; lost nodes stay lost. Raises ValueError when part of it is free already."""
        if not place.cores:
            if place.node_mask & self._whole or not self._shared.keys().isdisjoint(place.nodes):
                raise ValueError(f"{place} is free already")
            self._whole |= place.node_mask & ~self._lost
            return
        mask = self._mask(place.cores)
        if any(self._free_on(node) & mask for node in place.nodes):
            raise ValueError(f"{place} is free already")
        for node in place.nodes:
            if not self._lost >> node & 1:
                self._set(node, self._free_on(node) | mask)

    def lose(self, node: int) -> None:
        """Never use this node again."""
        self._set(node, 0)
        self._with[0] &= ~(1 << node)
        del self._shared[node]
        self._lost |= 1 << node

    def copy(self) -> FreeNodes:
        """The same, to try out what follows."""
        twin = FreeNodes.__new__(FreeNodes)
        twin.__dict__ = {**self.__dict__, "_shared": dict(self._shared), "_with": list(self._with)}
        return twin

    def _free_on(self, node: int) -> int:
        """The free cores of a node."""
        return _ones(len(self.cores)) if self._whole >> node & 1 else self._shared.get(node, 0)

    def _set(self, node: int, free: int) -> None:
        bit = 1 << node
        if node in self._shared:
            self._with[self._shared.pop(node).bit_count()] &= ~bit
        if free.bit_count() == len(self.cores):
            self._whole |= bit
            return
        self._whole &= ~bit
        self._shared[node] = free
        self._with[free.bit_count()] |= bit

    def _mask(self, cores: Sequence[int]) -> int:
        return sum(self._bit[core] for core in cores)

    def _find_nodes(self, count: int, avoided: int) -> Place | None:
        free = self._whole & ~avoided
        if free.bit_count() < count:
            return None
        side_by_side = _starts(free, count)
        if side_by_side:
            first = _lowest(side_by_side)
            return Place(tuple(range(first, first + count)))
        return Place(tuple(islice(_bits(free), count)))

    def _find_on_one(self, count: int, avoiding: Place | None) -> Place | None:
        others = ~(avoiding.node_mask if avoiding is not None else 0)
        for nodes in (*self._with[count:], self._whole):
            if nodes & others:
                node = _lowest(nodes & others)
                return Place((node,), self._numbers(_choose(self._free_on(node), count)))
        if avoiding is not None and avoiding.cores:
            # What is avoided on these nodes is some cores only.
            others = ~self._mask(avoiding.cores)
            for node in avoiding.nodes:
                free = self._free_on(node) & others
                if free.bit_count() >= count:
                    return Place((node,), self._numbers(_choose(free, count)))
        return None

    def _find_on_several(self, nodes: int, count: int, avoiding: Place | None) -> Place | None:
        """The same cores on each node: a repetition is planned with one list of cores for all its nodes."""
        avoided = self._mask(avoiding.cores or self.cores) if avoiding is not None else 0
        where = avoiding.node_mask if avoiding is not None else 0
        free = {}
        for having in (*self._with[count:], self._whole):
            for node in _bits(having):
                left = self._free_on(node) & ~avoided if where >> node & 1 else self._free_on(node)
                if left.bit_count() >= count:
                    free[node] = left
        if len(free) < nodes:
            return None
        for pattern in dict.fromkeys(free.values()):
            cores = _choose(pattern, count)
            fitting = [node for node, left in free.items() if left & cores == cores]
            if len(fitting) >= nodes:
                return Place(tuple(sorted(fitting[:nodes])), self._numbers(cores))
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
    return sum(1 << bit for bit in islice(_bits(free), count))


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
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _ones(count: int) -> int:
    return (1 << count) - 1
