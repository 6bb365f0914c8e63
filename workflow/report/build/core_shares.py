"""How much of the CPU time that they needed the stages had. Pure. On a machine with more work than cores, a stage may
compute half of the time and be ready to compute in the other half.

The evidence is what `/proc` says of the processes of a stage: the time on a CPU, and the time in which their main
threads were ready to run while other processes had it. Stages whose processes are on other nodes have neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workflow.formatting import percent, plural
from workflow.report.build.timeline import cpu_shares
from workflow.report.read.run_records import Records
from workflow.run.state.run_state import StageState

# Less time without a core is the noise of any machine.
MUCH_READY = 0.1
# CPU time is counted in ticks of 10 ms: of a shorter time it says little.
SHORTEST_S = 1.0


@dataclass(frozen=True)
class CoreShare:
    """Shares of the time of one rank: on a CPU, and ready to run without one."""

    had: float
    ready: float


def core_share(name: str, records: Records, start: float, end: float) -> CoreShare | None:
    """Of a stage between two times (Unix s), on the mean of its ranks; None: not seen for long enough."""
    if end - start < SHORTEST_S:
        return None
    use = cpu_shares(records.cpu.get(name, []), start, end, 1)
    ranks = records.plan.stage(name).ranks
    return None if use is None else CoreShare(use[0].cores / ranks, use[0].ready / ranks)


def shortage(name: str, records: Records, start: float, end: float) -> str:
    """`md had a core for 30 % of the time and waited for one for 66 %: the machine was busy`; empty where it had what
    it needed, or is not known."""
    return "".join(_texts([(name, start, end)], records))


def shortages(records: Records) -> list[str]:
    """The stages that lacked a core while they ran: a text for each cause.

    `md had a core for 30 % of the time and waited for one for 66 %; xrd 5 % and 23 %: the machine was busy`
    """
    stages = records.state.stages.items()
    ended = {name: records.state.t if stage.exited is None else stage.exited for name, stage in stages}
    return _texts([(name, stage.started, ended[name]) for name, stage in stages if stage.started is not None], records)


def _texts(stages: Iterable[tuple[str, float, float]], records: Records) -> list[str]:
    """Of stages, each from its start to its end: those that waited, by cause."""
    by_cause: dict[str, list[str]] = {}
    for name, start, end in stages:
        share = core_share(name, records, start, end)
        if share is None or share.ready < MUCH_READY:
            continue
        same = by_cause.setdefault(_why(name, records, start, end), [])
        had, waited = percent(share.had), percent(share.ready)
        same.append(
            f"{name} {had} and {waited}"
            if same
            else f"{name} had a core for {had} of the time and waited for one for {waited}"
        )
    return [f"{'; '.join(same)}: {cause}" for cause, same in by_cause.items()]


def _why(name: str, records: Records, start: float, end: float) -> str:
    """Stages beside it that want more cores than the node has, or the work of others."""
    wanted = 0
    for node in range(*records.plan.stage(name).placement.nodes[0]):
        beside = [each for each in records.plan.stages if records.state.runs_on(each.name, node)]
        beside = [each for each in beside if _ran(records.state.stages[each.name], start, end)]
        wanted = max(wanted, sum(each.placement.ranks_per_node * each.placement.cores_per_rank for each in beside))
    cores = records.plan.node.cores
    return (
        f"its node has {plural(cores, 'core')}, and its stages want {wanted}"
        if wanted > cores
        else "the machine was busy"
    )


def _ran(stage: StageState, start: float, end: float) -> bool:
    """Whether a stage ran in this time."""
    return stage.started is not None and stage.started < end and (stage.exited is None or stage.exited > start)
