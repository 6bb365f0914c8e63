"""Whether the measurements of two trials were interleaved, so that a drift of the machine affected both alike. Pure.

The numbers are those of repetitions. A repetition may have been measured more than once, by `--remeasure-reference`.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import Attempt, History, Repetition

MOST_BETWEEN = 2
"""Repetitions of the two trials that may start between those of one block: side by side, the next one begins early."""
LARGEST_SHARE = 0.25
"""Of the blocks, that may be apart: a few repetitions were interrupted, or failed and ran again later."""

Measurements = Mapping[int, Sequence[Attempt]]
"""Number → its measurements, the oldest first."""


@dataclass(frozen=True)
class Beside:
    """The measurements of two trials that are compared, and whether they were made in turns."""

    mine: dict[Repetition, Attempt]
    other: dict[Repetition, Attempt]
    in_turns: bool | None


def beside(key: str, other: str, spec: CampaignSpec, history: History) -> Beside:
    """Of each repetition of two trials the measurement that was made beside that of the other, else the last one."""
    sides = measurements(key, spec, history), measurements(other, spec, history)
    pairs = chosen(*sides)
    found = []
    for index, (name, its) in enumerate(zip((key, other), sides, strict=True)):
        found.append({
            Repetition(name, number): pairs[number][index] if number in pairs else attempts[-1]
            for number, attempts in its.items()
        })  # fmt: skip
    return Beside(found[0], found[1], in_turns(pairs))


def measurements(key: str, spec: CampaignSpec, history: History) -> dict[int, list[Attempt]]:
    """Those of a trial, without the warm-up."""
    identities = (Repetition(key, number) for number in range(1, spec.repetitions + 1))
    return {each.number: history.measurements(each) for each in identities if history.succeeded(each)}


def chosen(mine: Measurements, other: Measurements) -> dict[int, tuple[Attempt, Attempt]]:
    """Of each repetition that both have, the two measurements that are nearest in time."""
    return {
        number: min(
            itertools.product(reversed(mine[number]), reversed(other[number])),
            key=lambda both: abs(both[0].started - both[1].started),
        )
        for number in mine
        if number in other
    }


def apart(pairs: Mapping[int, tuple[Attempt, Attempt]]) -> list[int]:
    """The numbers of the blocks between whose two repetitions many others of the same trials were started."""
    times = sorted(each.started for pair in pairs.values() for each in pair)
    found = []
    for number, pair in pairs.items():
        first, last = sorted(each.started for each in pair)
        if bisect_left(times, last) - bisect_right(times, first) > MOST_BETWEEN:
            found.append(number)
    return found


def in_turns(pairs: Mapping[int, tuple[Attempt, Attempt]]) -> bool | None:
    """Whether all blocks, or all but a few, were measured together; None where there are none."""
    return len(apart(pairs)) <= LARGEST_SHARE * len(pairs) if pairs else None


def to_measure_again(
    spec: CampaignSpec, compared: Iterable[tuple[str, str]], baselines: Mapping[str, str], history: History
) -> dict[Repetition, int]:
    """What to measure again so that both trials of each comparison are measured in turns.

    `compared`: the keys of both; `baselines`: key → that of the trial's baseline. Returns how often each has been
    measured yet. What is to run beside something that is not finished, and both of a block that was measured apart;
    with their warm-up, and with their baselines: a metric that is computed with one compares two times.
    """
    found: dict[Repetition, int] = {}
    for keys in compared:
        both = [measurements(key, spec, history) for key in keys]
        pairs = chosen(*both)
        far = [] if in_turns(pairs) else apart(pairs)
        for key, its, others in zip(keys, both, reversed(both), strict=True):
            numbers = [number for number in its if number in far or number not in others]
            its_keys = [key, baselines[key]] if key in baselines else [key]
            again = [Repetition(each, number) for each in its_keys for number in numbers]
            if again:
                again += [
                    Repetition(each, number, warmup=True) for each in its_keys for number in range(1, spec.warmup + 1)
                ]
            found |= {each: len(history.measurements(each)) for each in again}
    return found
