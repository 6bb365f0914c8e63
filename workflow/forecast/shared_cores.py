"""Which stages of a plan take turns on the same cores, and what that costs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workflow.plan.plan_model import Plan, StagePlan


def has_several_ranks(stage: StagePlan) -> bool:
    """Whether a stage has several ranks on a node, which exchange data in each step by MPI.

    What another program takes from one of them delays all. While they wait for a step, one waits for the data, and the
    others for that one: they poll, and so are ready to run all the time.
    """
    return stage.placement.ranks_per_node > 1


def competitors(stage: StagePlan, others: Iterable[str], plan: Plan) -> list[StagePlan]:
    """Those of the other stages that find too few free cores beside the ranks of a stage, and so run on its cores."""
    return [
        other
        for name in others
        if name != stage.name
        and share_a_node(stage, other := plan.stage(name))
        and other.placement.ranks_per_node > _free_cores(stage, other, plan)
    ]


def share_of_a_core(busy: Sequence[float]) -> float:
    """What a process gets of its core on average, beside others that are busy so much of the time (0 to 1 each).

    Those that are ready at the same time have equal parts, as Linux gives them; they become ready independently of
    each other.
    """
    ready = [1.0]  # probability that so many others are ready
    for each in busy:
        now = [*ready, 0.0]
        ready = [now[count] * (1 - each) + (now[count - 1] * each if count else 0.0) for count in range(len(now))]
    return sum(probability / (1 + count) for count, probability in enumerate(ready))


def _free_cores(stage: StagePlan, other: StagePlan, plan: Plan) -> int:
    """Cores that `other` may use, and that the ranks of `stage` leave free."""
    taken, allowed = _usable_cores(stage, plan), _usable_cores(other, plan)
    # Ranks that are not bound leave those that others are bound to.
    left = 0 if stage.placement.cores else max(0, len(taken) - stage.placement.ranks_per_node)
    return min(len(allowed), len(allowed - taken) + left)


def _usable_cores(stage: StagePlan, plan: Plan) -> set[int]:
    """The cores of a node that a stage is bound to, or may use."""
    return set(stage.placement.cores) or set(plan.node.usable)


def share_a_node(one: StagePlan, other: StagePlan) -> bool:
    """Whether both have ranks on some node."""
    return any(
        low < other_high and other_low < high
        for low, high in one.placement.nodes
        for other_low, other_high in other.placement.nodes
    )
