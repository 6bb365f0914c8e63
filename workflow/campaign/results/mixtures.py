"""Notes on trials whose repetitions ran under different conditions, so that their medians mix these. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from workflow.campaign.results.samples import Measured


def mixture_notes(repetitions: Iterable[Measured]) -> list[str]:
    """That some repetitions ran alone and some beside others, or on several hosts.

    What is not recorded of a repetition does not count.
    """
    attempts = [each.attempt for each in repetitions if not each.warmup]
    notes = []
    beside = sum(bool(each.place) for each in attempts)
    if 0 < beside < len(attempts):
        text = f"{beside} of {len(attempts)} repetitions had a place beside others, and the rest of them ran alone"
        notes.append(
            f"{text}: times of both are compared as if they were alike. Measure all in one way, by another --dir"
        )
    hosts = Counter(each.host for each in attempts if each.host)
    if len(hosts) > 1:
        shown = ", ".join(f"{host} ({count})" for host, count in hosts.most_common(4))
        text = f"the repetitions ran on {len(hosts)} hosts: {shown}{', …' if len(hosts) > 4 else ''}"
        notes.append(f"{text}: a difference between hosts is in medians and ratios")
    return notes
