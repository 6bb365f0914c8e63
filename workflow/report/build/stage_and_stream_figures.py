"""The figures of stages, streams and readers, from the records of the stages and of the supervisor.

Pure, except that `stored_bytes` asks for the sizes of files.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from workflow.formats.sides import Side
from workflow.plan.plan_model import Plan, StagePlan, StreamPlan
from workflow.report.build.limiting_stage import Limit, stream_limit
from workflow.report.build.step_times import rank_spread, times_of_end, times_of_stage
from workflow.report.build.timeline import longest, queue_history
from workflow.report.read.run_records import Records
from workflow.report.read.stage_metrics import StageMetrics, StepRecord, number_of_steps
from workflow.report.report_model import AccuracyPart, ReaderPart, StagePart, StepTimes, StreamPart
from workflow.run.chain import first_step
from workflow.run.state.run_state import EndState, RunState, StageState
from workflow.run.state.stream_rates import bytes_moved, throughput, transfer_rate
from workflow.run.verdict.transport_check import transport_of

# Of what the program of a stage says of its run.
MOST_NOTES = 5
Interval = tuple[float, float]  # (begin, end), Unix seconds


def make_stage(plan: StagePlan, records: Records, last_lines: list[str], last_output: list[str]) -> StagePart:
    """One stage."""
    state, metrics = records.state, records.metrics[plan.name]
    seen = settled(state.stages[plan.name], state)
    times = {name: interval(stage, state.t) for name, stage in state.stages.items()}
    own = times.pop(plan.name)
    wall_s = own[1] - own[0] if own else None
    spent = _spent(metrics, seen, _in_open_s(plan, state), wall_s) if metrics.exists else {}
    steps_in, bytes_in = _moved(plan, records, "read")
    skipped = [*records.state.skipped.get(plan.name, ())]
    steps_out, bytes_out = _moved(plan, records, "write")
    cpu = records.cpu.get(plan.name)
    return StagePart(
        name=plan.name, kind=plan.kind, program=plan.component or shlex.join(plan.program), ranks=plan.ranks,
        ensemble=plan.member.ensemble if plan.member is not None else "",
        values=plan.member.values if plan.member is not None else {},
        hosts=[host for node, host in enumerate(records.hosts) if plan.placement.has_node(node)],
        state=seen.status, pid=seen.pid, exit_code=seen.code, signal=seen.signal, reason=seen.reason,
        first_step=first_step(records.plan, plan), started=seen.first_started, ended=seen.exited,
        wall_s=wall_s, cpu_s=cpu[-1].cpu_s if cpu else None,
        ready_s=cpu[-1].ready_s if cpu and not metrics.exists else None,
        steps_in=steps_in, steps_out=steps_out, skipped=skipped, bytes_in=bytes_in, bytes_out=bytes_out,
        step_times=times_of_stage(metrics), compute_ranks=rank_spread(metrics.computing_ranks),
        overlap=_covered(own, [time for time in times.values() if time]) / wall_s if own and wall_s else None,
        observed=plan.observed, figures=records.own_figures.get(plan.name, {}),
        figures_problem=records.figure_problems.get(plan.name, ""),
        notes=metrics.notes[-MOST_NOTES:], last_lines=last_lines, last_output=last_output, **spent,
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
    """open_s, compute_s, device_s, io_s, wait_s and the rest of the wall time."""
    # The last thing that a stopped or failed stage did may have been an open or a wait that never returned.
    after_s = metrics.compute_after_s if seen.status == "succeeded" else 0.0
    spent: dict[str, float | None] = {
        "open_s": sum(seconds for _, seconds in metrics.opened.values()) + in_open_s,
        "compute_s": sum(step.compute_s for step in metrics.steps) + after_s,
        "device_s": sum(step.device_s for step in metrics.steps) or None,
        "io_s": sum(step.io_s for step in metrics.steps),
        "wait_s": sum(step.wait_s for step in metrics.steps),
    }
    known = sum(value for value in spent.values() if value is not None)
    spent["other_s"] = None if wall_s is None else max(0.0, wall_s - known)
    return spent


def _moved(plan: StagePlan, records: Records, side: Side) -> tuple[int | None, int | None]:
    """Steps and bytes over all ends of a side; None when the stage has no such end whose steps can be counted."""
    metrics, ends = records.metrics[plan.name], records.state.ends_of(plan.name)
    counts = [count_steps(metrics.of(end.stream, side), end, records.state) for end in ends if end.side == side]
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


def make_stream(plan: StreamPlan, records: Records) -> StreamPart:
    """One stream."""
    metrics, seen = records.metrics[plan.writer], records.state.writer(plan.name)
    own = metrics.of(plan.name, "write")
    steps, volume = count_steps(own, seen, records.state)
    io_s, wait_s = _sum(own, "io_s"), _sum(own, "wait_s")
    noticed = [t for t, count in records.seen.get((plan.name, plan.writer, "write"), []) if count]
    closed = metrics.closed.get((plan.name, "write"))
    live = plan.coupling == "live" and bool(plan.readers)
    limit = stream_limit(plan, records) if live else Limit()
    parameters = records.plan.stage(plan.writer).end(plan.name, "write").parameters
    readers = [_make_reader(plan, name, records, steps) for name in plan.readers]
    if steps is not None and records.state.finished is None:
        # The files of both ends are read one after the other: what has been read by now was written.
        steps = max(steps, *(reader.steps or 0 for reader in readers), 0)
    moved = bytes_moved(volume, (reader.bytes for reader in readers))
    opened, last = time_of_stream(plan.name, "write", metrics, seen)
    return StreamPart(
        name=plan.name, writer=plan.writer, via=plan.via, engine=plan.engine, coupling=plan.coupling,
        queue_limit=plan.queue.limit if plan.queue else None, when_full=plan.queue.when_full if plan.queue else None,
        parameters=dict(parameters), transport=transport_of(seen), steps=steps,
        step_size=plan.step_size, queue_memory=plan.queue_memory, bytes=moved,
        bytes_are=_bytes_are(volume, in_file=not own and not plan.traits.in_memory, readers=readers, records=records),
        passed_on=_is_passed_on(plan, records.plan),
        stored=stored_bytes(plan), compressed=is_compressed(plan, records), unread=unread(plan, records),
        io_s=io_s, wait_s=wait_s, device_s=_sum(own, "device_s") or None, device_times=_device_times(own),
        device_ranks=rank_spread(metrics.device_ranks.get((plan.name, "write"))),
        write_times=times_of_end(own, lambda step: step.io_s + step.wait_s),
        write_ranks=rank_spread(metrics.moving_ranks.get((plan.name, "write"))),
        throughput=throughput(moved, opened, last),
        transfer_rate=transfer_rate(volume, (io_s or 0.0) + (wait_s or 0.0)),
        complete=closed.complete if closed else _complete(seen),
        first_step=own[0].t if own else noticed[0] if noticed else None,
        last_step=own[-1].t if own else seen.last_step,
        idle=idle(wait_s, opened, last), limited_by=limit.stage, limit_unknown=limit.why_unknown,
        longest_queue=longest(queue_history(plan, records)) if live else None,
        readers=readers,
    )  # fmt: skip


def _make_reader(plan: StreamPlan, name: str, records: Records, written: int | None) -> ReaderPart:
    seen, metrics = records.state.ends[plan.name, name, "read"], records.metrics[name]
    own = metrics.of(plan.name, "read")
    steps, volume = count_steps(own, seen, records.state)
    closed = metrics.closed.get((plan.name, "read"))
    complete = closed.complete if closed else _complete(seen)
    over = all(records.state.stages[stage].exited is not None for stage in (name, plan.writer))
    dropped = None if not over or steps is None or written is None else max(0, written - steps)
    io_s = _sum(own, "io_s")
    opened, last = time_of_stream(plan.name, "read", metrics, seen)
    return ReaderPart(
        stage=name, steps=steps, bytes=volume, io_s=io_s, wait_s=_sum(own, "wait_s"),
        device_s=_sum(own, "device_s") or None, device_times=_device_times(own),
        device_ranks=rank_spread(metrics.device_ranks.get((plan.name, "read"))),
        load_times=times_of_end(own, lambda step: step.io_s),
        load_ranks=rank_spread(metrics.moving_ranks.get((plan.name, "read"))),
        throughput=throughput(volume, opened, last), transfer_rate=transfer_rate(volume, io_s),
        dropped=dropped,
        lost=records.state.untaken(plan.name, name),
        complete=complete,
        accuracy=[AccuracyPart.model_validate(each) for each in metrics.accuracy.get(plan.name, [])],
    )  # fmt: skip


def _device_times(own: Sequence[StepRecord]) -> StepTimes | None:
    return times_of_end(own, lambda step: step.device_s) if any(step.device_s for step in own) else None


def count_steps(own: Sequence[StepRecord], seen: EndState, state: RunState) -> tuple[int | None, int | None]:
    """Steps and bytes of one end in this part of the run: by the stage's own records, or as the supervisor saw them.

    None: unknown.
    """
    if own:
        sizes = [step.bytes for step in own if step.bytes is not None]
        return number_of_steps(own), sum(sizes) if len(sizes) == len(own) else None
    # The steps of a program without metrics may be countable, and their sizes still unknown; of a file that is handed
    # over only the size is known.
    return state.steps_here(seen) if seen.counted else None, seen.bytes or None


def time_of_stream(stream: str, side: Side, metrics: StageMetrics, seen: EndState) -> tuple[float | None, float | None]:
    """When an end was opened, and when it was closed or made its last step (Unix s)."""
    steps, opened = metrics.of(stream, side), metrics.opened.get((stream, side))
    closed = metrics.closed.get((stream, side))
    if opened is None:
        return seen.begun, seen.last_moved
    return opened[0], closed.t if closed else steps[-1].t if steps else None


def idle(wait_s: float | None, opened: float | None, last: float | None) -> float | None:
    """Share of the time of a stream that its writer spent waiting for room. None where one of them is unknown."""
    if wait_s is None or opened is None or last is None or last <= opened:
        return None
    return min(1.0, wait_s / (last - opened))


def _bytes_are(
    written: int | None, *, in_file: bool, readers: Sequence[ReaderPart], records: Records
) -> Literal["written", "stored", "read", "at_least", "unknown"]:
    if written:
        return "stored" if in_file else "written"
    most = max((reader for reader in readers if reader.bytes), key=lambda reader: reader.bytes or 0, default=None)
    if most is None:
        return "unknown"
    # SST's log has the bytes of the first rank only.
    one_of_many = not records.metrics[most.stage].exists and records.plan.stage(most.stage).ranks > 1
    return "at_least" if one_of_many else "read"


def _is_passed_on(stream: StreamPlan, plan: Plan) -> bool:
    if plan.stage(stream.writer).added == "spool":
        return True
    return bool(stream.readers) and all(plan.stage(reader).passes_on for reader in stream.readers)


def is_compressed(plan: StreamPlan, records: Records) -> bool:
    """Whether the writer of a stream has an operator for some of its variables."""
    return any(end.operators for end in records.plan.stage(plan.writer).ends if end.stream == plan.name)


def stored_bytes(plan: StreamPlan) -> int | None:
    """Bytes of the data files of a stream, without the metadata of BP; None where there are none."""
    if plan.traits.in_memory:
        return None
    try:
        paths = [Path(path) for path in plan.on_disk]
        files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("data.*"))]
        sizes = [file.stat().st_size for file in files]
    except OSError:
        return None  # being removed
    return sum(sizes) if sizes else None


def unread(plan: StreamPlan, records: Records) -> list[str]:
    """Compressed variables that no reader compared; [] where the records of a reader are missing."""
    readers = [records.metrics[name] for name in plan.readers]
    if not all(plan.name in {stream for stream, _ in reader.opened} for reader in readers):
        return []
    checked = {each["variable"] for reader in readers for each in reader.accuracy.get(plan.name, [])}
    return [name for name in records.metrics[plan.writer].compressed.get(plan.name, []) if name not in checked]


def _complete(seen: EndState) -> bool | None:
    return None if seen.closed is None else seen.complete


def _sum(steps: Sequence[StepRecord], key: str) -> float | None:
    return sum(getattr(step, key) for step in steps) if steps else None
