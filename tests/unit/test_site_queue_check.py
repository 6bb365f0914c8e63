"""Which queue takes which job, by the limits of shipped sites."""

from __future__ import annotations

from typing import Any

import pytest

from workflow.site.load_site import read_site_file
from workflow.site.queue_check import longest_walltime_s, misfit, queue_problems
from workflow.site.queue_model import SiteQueue

HOUR = 3600.0
FRONTIER = read_site_file("frontier").queues
# ALCF's Aurora
ROUTED = {
    "debug": SiteQueue.model_validate({"nodes": (1, 2), "walltime": HOUR, "min_walltime": 300}),
    "prod": SiteQueue.model_validate(
        {
            "nodes": (256, 10624), "walltime": 24 * HOUR, "min_walltime": 300, "routing": True,
            "limits": [
                {"nodes": (256, 1024), "walltime": 12 * HOUR}, {"nodes": (1025, 1999), "walltime": 18 * HOUR},
                {"nodes": (2000, 10624), "walltime": 24 * HOUR},
            ],
        }
    ),
}  # fmt: skip


def said(queues: dict[str, SiteQueue], *job: Any) -> str:
    return "\n".join(str(problem) for problem in queue_problems(queues, *job))


@pytest.mark.parametrize(
    ("nodes", "hours", "queue"),
    [
        (1, 2, None),
        (91, 2, "batch"),
        (92, 6, None),
        (184, 12, None),
        (9472, 12, None),
        (64, 24, "extended"),
        (4, 2, "debug"),
    ],
)
def test_jobs_that_frontier_takes(nodes: int, hours: float, queue: str | None) -> None:
    assert said(FRONTIER, nodes, hours * HOUR, queue) == ""
    assert said(FRONTIER, nodes, None, queue) == ""


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ((91, 3 * HOUR, None),
         "error: queue batch does not take 91 nodes for 3 h 00 min: it takes 91 nodes for 2 h 00 min at most\n"
         "  ask for 2 h 00 min at most: `queue: batch` takes 91 nodes so long"),
        ((64, 3 * HOUR, None),
         "error: queue batch does not take 64 nodes for 3 h 00 min: it takes 64 nodes for 2 h 00 min at most\n"
         "  take extended: `queue: extended`"),
        ((9473, HOUR, "batch"),
         "error: queue batch does not take 9473 nodes for 1 h 00 min: it takes 1 to 9472 nodes\n"
         "  nodes that the queues take: batch 1 to 9472, extended 1 to 64, debug 1 to 9472"),
        ((65, 24 * HOUR, "extended"),
         "error: queue extended does not take 65 nodes for 24 h 00 min: it takes 1 to 64 nodes\n"
         "  ask for 2 h 00 min at most: `queue: batch` takes 65 nodes so long"),
        ((1, HOUR, "bach"),
         "warning: the site's file has no queue `bach`: its limits are not checked\n  did you mean `batch`?"),
    ],
)  # fmt: skip
def test_jobs_that_frontier_does_not_take(job: tuple[int, float, str | None], message: str) -> None:
    assert said(FRONTIER, *job) == message


@pytest.mark.parametrize(
    ("nodes", "hours", "fault"),
    [
        (255, 1, "it takes 256 to 10624 nodes"),
        (256, 13, "it takes 256 nodes for 12 h 00 min at most"),
        (1025, 18, ""),
        (1024, 18, "it takes 1024 nodes for 12 h 00 min at most"),
        (2000, 0.05, "it takes 5 min 00 s at least"),
    ],
)
def test_a_routing_queue_drops_what_none_of_its_queues_takes(nodes: int, hours: float, fault: str) -> None:
    assert misfit(ROUTED["prod"], nodes, hours * HOUR) == fault
    text = said(ROUTED, nodes, hours * HOUR, "prod")
    assert (f"{fault} and drops other jobs without a message" in text) is bool(fault)


def test_a_routing_queue_with_a_hole() -> None:
    holed = ROUTED["prod"].model_copy(update={"limits": ROUTED["prod"].limits[:1]})
    assert longest_walltime_s(holed, 3000) == 0
    assert misfit(holed, 3000, HOUR) == "it takes no job of 3000 nodes"


def test_without_a_default_any_queue_will_do() -> None:
    assert said(ROUTED, 2, HOUR, None) == ""
    assert said(ROUTED, 100, HOUR, None) == (
        "error: no queue takes 100 nodes for 1 h 00 min\n  nodes that the queues take: debug 1 to 2, prod 256 to 10624"
    )


def test_what_is_not_known_is_not_checked() -> None:
    assert said({}, 10**6, 10**9, "any") == ""
    assert said({"q": SiteQueue()}, 10**6, 10**9, None) == ""
