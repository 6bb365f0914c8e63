"""The wait-for graph: which stage waits for which, where a chain of waits ends, and cycles. Pure: names of stages and
texts only.

A stage that waits for several others needs all of them. So the cause is found along any wait: it is a stage that waits
for nobody, or a circle. The results depend on the graph and on the order of its entries, not on the order of events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Wait:
    """`text` says what a stage waits for; `stage` is whose turn it is.

    `proven`: the program is inside a call that returns only when `stage` has acted. Otherwise the wait is inferred from
    counts, and the program may as well compute. `rank`: how likely `stage` is the cause where all wait in a circle,
    0 before 1.
    """

    stage: str
    text: str
    proven: bool = False
    rank: int = 2


class Link(NamedTuple):
    """One wait of a path, and whose it is."""

    waiter: str
    wait: Wait


# Stage → what it waits for; a stage without an entry waits for nobody.
WaitGraph = Mapping[str, Sequence[Wait]]
WaitPath = tuple[Link, ...]


def find_path(graph: WaitGraph, start: str) -> tuple[WaitPath, str | None]:
    """(the waits that lead from `start` to a stage that waits for nobody, that stage).

    If all waits lead into circles: the waits up to the first stage that is met again, and None.
    """
    if not graph.get(start):
        return (), start
    first_circle: WaitPath = ()
    for path, is_circle in _search(graph, start, {start}):
        if not is_circle:
            return path, path[-1].wait.stage
        first_circle = first_circle or path
    return first_circle, None


def find_deadlock(graph: WaitGraph, order: Sequence[str]) -> WaitPath | None:
    """A circle in which every wait is proven: no stage of it can continue, whatever the others do. None: there is none.

    Of several circles the one to which the first stage in `order` leads; it ends with its cause (`turn_to_cause`).
    """
    proven = {name: [wait for wait in waits if wait.proven] for name, waits in graph.items()}
    seen: set[str] = set()
    for start in order:
        if start not in seen:
            seen.add(start)
            for path, is_circle in _search(proven, start, seen):
                if is_circle:
                    return turn_to_cause(circle_of(path), order)
    return None


def circle_of(path: WaitPath) -> WaitPath:
    """The circle at the end of a path whose last wait is for a stage on the path."""
    again = path[-1].wait.stage
    return path[next(index for index, link in enumerate(path) if link.waiter == again) :]


def turn_to_cause(circle: WaitPath, order: Sequence[str]) -> WaitPath:
    """The same circle, so that its last wait is for the stage that is its cause.

    The cause is the stage that is awaited with the lowest rank; of several, the first one in `order`.
    """
    likely = [(link.wait.rank, order.index(link.wait.stage)) for link in circle]
    end = likely.index(min(likely)) + 1
    return circle[end:] + circle[:end]


def _search(graph: WaitGraph, start: str, seen: set[str]) -> Iterator[tuple[WaitPath, bool]]:
    """Depth first: each path from `start` that ends at a stage that waits for nobody, or at one that is on the path
    (True). Stages that were `seen` before and are not on the path are not entered again."""
    path: list[Link] = []
    names = [start]
    untried = [iter(graph.get(start, ()))]
    while untried:
        wait = next(untried[-1], None)
        if wait is None:
            untried.pop()
            names.pop()
            del path[-1:]
            continue
        link = Link(names[-1], wait)
        if wait.stage in names:
            yield (*path, link), True
        elif wait.stage not in seen:
            seen.add(wait.stage)
            if not graph.get(wait.stage):
                yield (*path, link), False
                continue
            path.append(link)
            names.append(wait.stage)
            untried.append(iter(graph[wait.stage]))
