"""The figures of a stage, computed from its own records and from what the supervisor saw. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace

from workflow.formats.stage_file import Side
from workflow.plan.plan_model import StagePlan
from workflow.report.build.stream_figures import count_steps
from workflow.report.read.metrics_file import StageMetrics
from workflow.report.read.run_records import Records
from workflow.report.report_model import StagePart
from workflow.run.state import RunState, StageState

Interval = tuple[float, float]  # (begin, end), Unix seconds


def make_stage(plan: StagePlan, records: Records, last_lines: list[str]) -> StagePart:
    """One stage."""
    state, metrics = records.state, records.metrics[plan.name]
    seen = settled(state.stages[plan.name], state)
    times = {name: interval(stage, state.t) for name, stage in state.stages.items()}
    own = times.pop(plan.name)
    wall_s = own[1] - own[0] if own else None
    spent = _spent(metrics, seen, _in_open_s(plan, state), wall_s) if metrics.exists else {}
    steps_in, bytes_in = _moved(plan, records, "read")
    steps_out, bytes_out = _moved(plan, records, "write")
    cpu = records.cpu.get(plan.name)
    return StagePart(
        name=plan.name, kind=plan.kind, program=plan.component or shlex.join(plan.program), ranks=plan.ranks,
        state=seen.status, pid=seen.pid, exit_code=seen.code, signal=seen.signal, reason=seen.reason,
        started=seen.first_started, ended=seen.exited, wall_s=wall_s, cpu_s=cpu[-1].cpu_s if cpu else None,
        ready_s=cpu[-1].ready_s if cpu and not metrics.exists else None,
        steps_in=steps_in, steps_out=steps_out, bytes_in=bytes_in, bytes_out=bytes_out,
        overlap=_covered(own, [time for time in times.values() if time]) / wall_s if own and wall_s else None,
        observed=plan.observed, figures=records.own_figures.get(plan.name, {}), last_lines=last_lines, **spent,
    )  # fmt: skip


def settled(seen: StageState, state: RunState) -> StageState:
    """The stage once the run is over: the guard of a killed supervisor ends all stages and writes no events on them."""
    if state.finished is None or seen.is_over:
        return seen
    ended = state.t if seen.runs else seen.exited
    return replace(seen, status="stopped", exited=ended)


def interval(seen: StageState, last: float) -> Interval | None:
    """When a stage ran; until the last event when it still does. None: never started."""
    began = seen.first_started
    if began is None:
        return None
    return began, max(began, last if seen.exited is None else seen.exited)


def busy_s(stage: StagePart) -> float | None:
    """Time that the stage would have needed alone: all but waiting and rendezvous. None: unknown."""
    if stage.wall_s is None:
        return None
    if stage.wait_s is None:
        return None if stage.cpu_s is None else min(stage.wall_s, stage.cpu_s + (stage.ready_s or 0.0))
    return max(0.0, stage.wall_s - stage.wait_s - (stage.open_s or 0.0))


def _in_open_s(plan: StagePlan, state: RunState) -> float:
    """Time in an open that never returned: only the supervisor could record it."""
    seen = state.stages[plan.name]
    last = state.t if seen.exited is None else seen.exited
    since = [end.offered for end in state.ends_of(plan.name) if end.offered is not None and end.opened is None]
    return max(0.0, last - min(since)) if since else 0.0


def _spent(metrics: StageMetrics, seen: StageState, in_open_s: float, wall_s: float | None) -> dict[str, float | None]:
    """open_s, compute_s, io_s, wait_s and the rest of the wall time."""
    # The last thing that a stopped or failed stage did may have been an open or a wait that never returned.
    after_s = metrics.compute_after_s if seen.status == "succeeded" else 0.0
    spent: dict[str, float | None] = {
        "open_s": sum(seconds for _, seconds in metrics.opened.values()) + in_open_s,
        "compute_s": sum(step.compute_s for step in metrics.steps) + after_s,
        "io_s": sum(step.io_s for step in metrics.steps),
        "wait_s": sum(step.wait_s for step in metrics.steps),
    }
    known = sum(value for value in spent.values() if value is not None)
    spent["other_s"] = None if wall_s is None else max(0.0, wall_s - known)
    return spent


def _moved(plan: StagePlan, records: Records, side: Side) -> tuple[int | None, int | None]:
    """Steps and bytes over all ends of a side; None when the stage has no such end whose steps can be counted."""
    metrics, ends = records.metrics[plan.name], records.state.ends_of(plan.name)
    counts = [count_steps(metrics.of(end.stream, side), end) for end in ends if end.side == side]
    steps, volumes = [n for n, _ in counts if n is not None], [n for _, n in counts if n is not None]
    return (sum(steps), sum(volumes)) if steps else (None, None)


def _covered(own: Interval, others: Iterable[Interval]) -> float:
    """Seconds of `own` in which at least one of the others ran."""
    covered, reached = 0.0, own[0]
    for start, end in sorted(others):
        start, end = max(start, reached), min(end, own[1])
        if end > start:
            covered, reached = covered + end - start, end
    return covered
