"""Which queue takes which job, by the limits of shipped sites."""

from __future__ import annotations

import pytest

from workflow.site.load_site import read_site_file
from workflow.site.queue_model import SiteQueue, fitting_queues, longest_walltime_s, misfit

HOUR = 3600.0
FRONTIER = read_site_file("frontier").queues
# ALCF's Aurora
ROUTED = SiteQueue.model_validate(
    {
        "nodes": (256, 10624), "walltime": 24 * HOUR, "min_walltime": 300, "routing": True,
        "limits": [
            {"nodes": (256, 1024), "walltime": 12 * HOUR}, {"nodes": (1025, 1999), "walltime": 18 * HOUR},
            {"nodes": (2000, 10624), "walltime": 24 * HOUR},
        ],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "hours", "queues"),
    [
        (1, 2, ["batch", "extended", "debug"]),
        (64, 24, ["extended"]),
        (91, 2, ["batch", "debug"]),
        (91, 3, []),
        (92, 6, ["batch"]),
        (184, 12, ["batch"]),
        (9472, 12, ["batch"]),
        (9472, 13, []),
        (9473, 1, []),
    ],
)
def test_queues_of_frontier(nodes: int, hours: float, queues: list[str]) -> None:
    assert fitting_queues(FRONTIER, nodes, hours * HOUR) == queues


@pytest.mark.parametrize(
    ("nodes", "hours", "fault"),
    [
        (255, 1, "takes jobs of 256 to 10624 nodes"),
        (256, 13, "takes jobs of 256 nodes for at most 12 h 00 min"),
        (1025, 18, ""),
        (1024, 18, "takes jobs of 1024 nodes for at most 12 h 00 min"),
        (2000, 0.05, "takes jobs of at least 5 min 00 s"),
        (2000, None, ""),
    ],
)
def test_a_routing_queue_takes_what_one_of_its_queues_takes(nodes: int, hours: float | None, fault: str) -> None:
    assert misfit(ROUTED, nodes, None if hours is None else hours * HOUR) == fault


def test_a_routing_queue_with_a_hole() -> None:
    holed = ROUTED.model_copy(update={"limits": ROUTED.limits[:1]})
    assert longest_walltime_s(holed, 3000) == 0
    assert misfit(holed, 3000, None) == "takes no job of 3000 nodes"


def test_the_default_comes_first() -> None:
    queues = {"a": SiteQueue(), "b": SiteQueue(default=True), "c": SiteQueue()}
    assert fitting_queues(queues, 10**6, 10**9) == ["b", "a", "c"], "what is not known is not checked"
    assert fitting_queues({}, 1, 1) == []
