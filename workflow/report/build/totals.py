"""The figures of stages and streams, computed from what they recorded. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workflow.formats.sides import Side
from workflow.plan.plan_model import StagePlan, StreamPlan
from workflow.report.build.bottleneck import stream_limit, waiting
from workflow.report.build.compression_gain import stored_bytes, unread
from workflow.report.build.queue_history import longest, queue_history
from workflow.report.read.metrics_file import StageMetrics, StepRecord
from workflow.report.read.run_records import Records
from workflow.report.report_model import AccuracyPart, ReaderPart, StagePart, StreamPart
from workflow.run.state import EndState, RunState, StageState
from workflow.run.verdict.transport_check import transport_of

Interval = tuple[float, float]


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
    return StagePart(
        name=plan.name, kind=plan.kind, program=plan.component or shlex.join(plan.program), ranks=plan.ranks,
        state=seen.status, pid=seen.pid, exit_code=seen.code, signal=seen.signal, reason=seen.reason,
        started=seen.started, ended=seen.exited, wall_s=wall_s,
        steps_in=steps_in, steps_out=steps_out, bytes_in=bytes_in, bytes_out=bytes_out,
        overlap=_covered(own, [time for time in times.values() if time]) / wall_s if own and wall_s else None,
        observed=plan.observed, last_lines=last_lines, **spent,
    )  # fmt: skip


def settled(seen: StageState, state: RunState) -> StageState:
    """The stage as it is once the run is over: the guard of a killed supervisor ends all without a word on each."""
    if state.finished is None or seen.is_over:
        return seen
    ended = state.t if seen.runs else seen.exited
    return replace(seen, status="stopped", exited=ended)


def interval(seen: StageState, last: float) -> Interval | None:
    """When a stage ran; until the last event when it still does. None: never started."""
    if seen.started is None:
        return None
    return seen.started, max(seen.started, last if seen.exited is None else seen.exited)


def busy_s(stage: StagePart) -> float | None:
    """Time that the stage would have needed alone: all but waiting and rendezvous. None without metrics."""
    if stage.wall_s is None or stage.wait_s is None:
        return None
    return max(0.0, stage.wall_s - stage.wait_s - (stage.open_s or 0.0))


def make_stream(plan: StreamPlan, records: Records) -> StreamPart:
    """One stream."""
    metrics, seen = records.metrics[plan.writer], records.state.writer(plan.name)
    own = metrics.of(plan.name, "write")
    steps, volume = _counted(own, seen)
    io_s, wait_s = _sum(own, "io_s"), _sum(own, "wait_s")
    noticed = [t for t, count in records.seen.get((plan.name, plan.writer, "write"), []) if count]
    closed = metrics.closed.get((plan.name, "write"))
    live = plan.coupling == "live" and plan.engine != "file"
    idle = waiting(metrics, plan.name, "write")
    parameters = [end.parameters for end in records.plan.stage(plan.writer).ends if end.stream == plan.name]
    readers = [_make_reader(plan, name, records, steps) for name in plan.readers]
    fetched = max((reader.bytes for reader in readers if reader.bytes), default=None)
    return StreamPart(
        name=plan.name, writer=plan.writer, via=plan.via, engine=plan.engine, coupling=plan.coupling,
        queue_limit=plan.queue.limit if plan.queue else None, when_full=plan.queue.when_full if plan.queue else None,
        parameters=dict(parameters[0]) if parameters else {}, transport=transport_of(seen), steps=steps,
        step_size=plan.step_size, queue_memory=plan.queue_memory, bytes=volume or fetched,
        stored=stored_bytes(plan, records), unread=unread(plan, records), io_s=io_s, wait_s=wait_s,
        throughput=_rate(volume, (io_s or 0.0) + (wait_s or 0.0)),
        complete=closed.complete if closed else _complete(seen),
        first_step=own[0].t if own else noticed[0] if noticed else None,
        last_step=own[-1].t if own else seen.last_step,
        idle=idle, limited_by=stream_limit(plan, records.metrics) if live else "",
        longest_queue=longest(queue_history(plan, records)) if live else None,
        readers=readers,
    )  # fmt: skip


def _make_reader(plan: StreamPlan, name: str, records: Records, written: int | None) -> ReaderPart:
    seen, metrics = records.state.ends[plan.name, name, "read"], records.metrics[name]
    own = metrics.of(plan.name, "read")
    steps, volume = _counted(own, seen)
    closed = metrics.closed.get((plan.name, "read"))
    complete = closed.complete if closed else _complete(seen)
    over = all(records.state.stages[stage].exited is not None for stage in (name, plan.writer))
    known = over and steps is not None and written is not None
    io_s = _sum(own, "io_s")
    return ReaderPart(
        stage=name, steps=steps, bytes=volume, io_s=io_s, wait_s=_sum(own, "wait_s"),
        throughput=_rate(volume, io_s), dropped=max(0, (written or 0) - (steps or 0)) if known else None,
        complete=complete,
        accuracy=[AccuracyPart.model_validate(each) for each in metrics.accuracy.get(plan.name, [])],
    )  # fmt: skip


def _in_open_s(plan: StagePlan, state: RunState) -> float:
    """Time in an open that never returned: what nobody but the supervisor could note."""
    seen = state.stages[plan.name]
    last = state.t if seen.exited is None else seen.exited
    since = [end.offered for end in state.ends_of(plan.name) if end.offered is not None and end.opened is None]
    return max(0.0, last - min(since)) if since else 0.0


def _spent(metrics: StageMetrics, seen: StageState, in_open_s: float, wall_s: float | None) -> dict[str, float | None]:
    """open_s, compute_s, io_s, wait_s and the rest of the wall time."""
    # What a stage did last that was stopped or failed may have been an open or a wait that never returned.
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
    """Steps and bytes over all ends of a side; None when the stage has no end there, or none that is counted."""
    metrics, ends = records.metrics[plan.name], records.state.ends_of(plan.name)
    counts = [_counted(metrics.of(end.stream, side), end) for end in ends if end.side == side]
    steps, volumes = [n for n, _ in counts if n is not None], [n for _, n in counts if n is not None]
    return (sum(steps), sum(volumes)) if steps else (None, None)


def _counted(own: Sequence[StepRecord], seen: EndState) -> tuple[int | None, int | None]:
    """Steps and bytes: from the stage's own records, or from what the supervisor saw. None: it could not see."""
    if own:
        sizes = [step.bytes for step in own if step.bytes is not None]
        return len(own), sum(sizes) if len(sizes) == len(own) else None
    # A program of the user's own whose steps can be counted may still not say how large they were.
    return (seen.steps, seen.bytes or None) if seen.counted else (None, None)


def _complete(seen: EndState) -> bool | None:
    return None if seen.closed is None else seen.complete


def _covered(own: Interval, others: Iterable[Interval]) -> float:
    """Seconds of `own` in which at least one of the others ran."""
    covered, reached = 0.0, own[0]
    for start, end in sorted(others):
        start, end = max(start, reached), min(end, own[1])
        if end > start:
            covered, reached = covered + end - start, end
    return covered


def _sum(steps: Sequence[StepRecord], key: str) -> float | None:
    return sum(getattr(step, key) for step in steps) if steps else None


def _rate(volume: int | None, seconds: float | None) -> float | None:
    return volume / seconds if volume and seconds else None
