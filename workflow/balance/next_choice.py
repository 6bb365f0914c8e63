"""Whether the next part of a run has other settings than this one, which took longer than `wf balance` promised. Pure.

What was measured of the part is set against what is in `balance.json`: a job that is about to end plans no candidates.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import geometric_mean

from workflow.balance.balance_model import Balance, BalancedCandidate
from workflow.balance.candidates import setting_text
from workflow.balance.promise import is_set
from workflow.balance.search import TOLERANCE
from workflow.forecast.quartiles import Estimate
from workflow.report.show.forecast_tables import short_time

# Keys that may differ between two parts of a run: where its stages are, and how its data move. Saved states belong to a
# number of ranks, a file keeps its compression, and what depends on another key only the user knows.
CHANGEABLE = ("stages.*.place.*", "stages.*.output.async", "streams.*.via")


def next_choice(balance: Balance, took_s: float, given: Collection[str] = ()) -> BalancedCandidate | None:
    """The candidate whose settings the next part has; None: it has those of this part.

    It has run as a probe, differs in nothing but what may change between two parts, needs no more nodes, and is
    expected to be better by more than the tolerance than this part was.

    Args:
        balance: the one whose choice this part has used.
        took_s: seconds per step of this part, measured as those of the probes were.
        given: keys that stay as they are, because an option of the run sets them.
    """

    def cost(each: BalancedCandidate) -> float:
        return _expected_s(balance, took_s, each) * (each.nodes if balance.goal == "node-hours" else 1)

    chosen = balance.chosen
    if took_s <= chosen.seconds.high:
        return None
    best = min(_rivals(balance, given), key=cost, default=chosen)
    return best if cost(best) < (1 - TOLERANCE) * cost(chosen) else None


def with_choice(balance: Balance, took_s: float, choice: BalancedCandidate) -> Balance:
    """The same with another choice, and what this part took.

    What is promised of the new choice is what is expected now. What the one before has taken stays known: it is chosen
    again where it is the best one all the same.
    """
    before = balance.chosen.model_copy(update={"took_s": took_s})
    factor = _expected_s(balance, took_s, choice) / choice.seconds.median
    others = (each for each in (before, *balance.others) if each.settings and each.settings != choice.settings)
    changed = {
        "chosen": choice.model_copy(update={"seconds": choice.seconds * factor}),
        "today": balance.today if before.settings else before,
        "others": sorted(others, key=lambda each: each.took_s or each.seconds.median),
    }
    return balance.model_copy(update=changed)


def took_text(part: int, took_s: float, promised: Estimate) -> str:
    """`part 2 took 12.1 ms per step, promised 9.00 ms to 10.2 ms`."""
    bounds = f"{short_time(promised.low)} to {short_time(promised.high)}"
    return f"part {part} took {short_time(took_s)} per step, promised {bounds}"


def changes_text(balance: Balance, choice: BalancedCandidate) -> str:
    """`streams.field.via=sst in place of shm`, of each key whose value is another one."""

    def text(key: str, candidate: BalancedCandidate) -> str:
        value = candidate.settings.get(key, balance.keys[key][0])
        return setting_text(key, "none" if value is None else value)

    keys = sorted(_different(balance.chosen, choice))
    return ", ".join(f"{text(key, choice)} in place of {text(key, balance.chosen)[len(key) + 1 :]}" for key in keys)


def _rivals(balance: Balance, given: Collection[str]) -> list[BalancedCandidate]:
    failed = [each.settings for each in balance.failed]
    return [
        each
        for each in (balance.today, *balance.others)
        if each.probes and each.settings not in failed and each.nodes <= balance.chosen.nodes
        if (keys := _different(balance.chosen, each))
        if all(is_set([key], CHANGEABLE) for key in keys) and not is_set(keys, given)
    ]  # fmt: skip


def _different(one: BalancedCandidate, other: BalancedCandidate) -> set[str]:
    """The keys whose values differ: values as in the file are in no settings."""
    return {key for key in {*one.settings, *other.settings} if one.settings.get(key) != other.settings.get(key)}


def _expected_s(balance: Balance, took_s: float, candidate: BalancedCandidate) -> float:
    """What a part with these settings takes per step: what one has taken, else what the probes say.

    Where two candidates or more have run in parts, and all of them took longer than as probes, it is not they that are
    slow but the machine or what is computed: then others will be slower, too, at least by that.
    """
    if candidate.settings == balance.chosen.settings:
        return took_s
    if candidate.took_s is not None:
        return candidate.took_s
    slower = [
        each.took_s / geometric_mean(each.probes)
        for each in (balance.today, *balance.others)
        if each.took_s is not None and each.settings != balance.chosen.settings
    ]
    if not slower:
        return candidate.seconds.median
    slower.append(took_s / geometric_mean(balance.chosen.probes))
    return candidate.seconds.median * max(1.0, min(slower))
