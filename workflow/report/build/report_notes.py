"""The notes of a report: what to know about its numbers, and what was started again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from workflow.formats.metrics_lines import FULL_STEPS
from workflow.formatting import duration, moment, part_text, plural, size
from workflow.plan.plan_model import Plan
from workflow.plan.streams.spool_places import spool_text
from workflow.report.build.limiting_stage import shortages
from workflow.report.read.run_records import Records
from workflow.report.report_model import RestartPart, RunPart, StagePart, StreamPart
from workflow.run.state.events import (
    NodeSilent,
    RecordsLost,
    StagesRestarted,
)
from workflow.run.state.lifecycle_events import RestartDecided, StageSilent
from workflow.run.state.run_state import RunState
from workflow.run.verdict.transport_check import difference
from workflow.spec.suggest import listing

# Steps may be larger than planned by this factor before a note says so.
TOLERANCE = 1.05


def make_notes(records: Records, streams: list[StreamPart]) -> list[str]:
    """All notes, those on missing or broken records first."""
    allocation = records.state.allocation
    return [
        *([] if allocation is None else allocation.notes),
        *_silences(records),
        *shortages(records),
        *_without_metrics(records),
        *(f"{stage}: {problem}" for stage, problem in records.figure_problems.items()),
        *_other_transports(records),
        *_incomplete(records),
        *_summed(records),
        *_warnings(records),
        *_placement(records),
        *_uncounted(streams),
        *_bytes_of_readers(streams),
        *_spools(records.plan),
        *_dropped(records.plan, streams),
        *_removed(records),
        *_unchecked(records.plan, streams),
        *_larger(streams),
    ]


def _warnings(records: Records) -> list[str]:
    """What the supervisor has warned of, but for what other notes say: silences, and records of stages."""
    return [
        each.text
        for each in records.state.warnings
        if not isinstance(each, StageSilent | NodeSilent) and not (isinstance(each, RecordsLost) and each.stage)
    ]


def unfinished_files(records: Records) -> list[str]:
    """Files that were not finished: their steps are not lost."""
    texts = []
    for each in records.partial:
        what = "what was written is" if each.steps is None else f"its {plural(each.steps, 'step')}"
        are = "" if each.steps is None else " is" if each.steps == 1 else " are"
        texts.append(f"{each.wanted.name} was not finished: {what}{are} in {each.path}")
    return texts


def _placement(records: Records) -> list[str]:
    """What the proof of the placement has found; of a run that it has ended the verdict says the first difference."""
    proof = records.state.proof
    if proof is None:
        return []
    if proof.state == "proved":
        count = f"{plural(proof.nodes, 'node')}, {plural(proof.ranks, 'rank')}"
        return [f"placement proved: {count}, {proof.seconds:.1f} s"]
    return proof.differences[1:] if proof.state == "refused" else proof.differences


def _without_metrics(records: Records) -> list[str]:
    """Stages whose steps and bytes only the supervisor counted."""
    return [
        f"stage {stage.name} keeps no metrics of its own: its steps and bytes are what the supervisor saw"
        for stage in records.plan.stages
        if stage.ends and records.state.stages[stage.name].started and not records.metrics[stage.name].exists
    ]


def empty_warnings(records: Records, streams: list[StreamPart]) -> list[str]:
    """Streams that a program of a run that has succeeded opened and closed without a step: seldom what was meant. Some
    notes say why.
    """
    if records.state.finished is None or records.state.finished.state != "succeeded":
        return []
    empty = [each for each in streams if each.steps == 0 and each.name not in records.metrics[each.writer].explained]
    return [f"stream {each.name}: {each.writer} wrote no step" for each in empty]


def _spools(plan: Plan) -> list[str]:
    """What was kept for restarts, where that is not all, or is not found after the run."""
    return [
        f"the spool of {stream.name} keeps {spool_text(stream)}; it is removed after the run, so that `wf resume` and "
        "`wf replay` cannot use it"
        for stream in plan.streams
        if stream.spool and not stream.has_whole_spool
    ]


def _silences(records: Records) -> list[str]:
    """The longest silence of each stage of which the supervisor has warned."""
    longest: dict[str, StageSilent] = {}
    for warning in (each for each in records.state.warnings if isinstance(each, StageSilent)):
        known = longest.get(warning.stage)
        if known is None or warning.t - warning.since > known.t - known.since:
            longest[warning.stage] = warning
    return [f"at {moment(each.t)}: {each.text}" for each in longest.values()]


def _other_transports(records: Records) -> list[str]:
    """Streams that SST moved in another way than planned."""
    return [
        text
        for stream in records.plan.streams
        if stream.fallback and (text := difference(records.state, records.state.writer(stream.name)))
    ]


def _incomplete(records: Records) -> list[str]:
    """Lines of the files of metrics that are broken, or could not be written."""
    broken = {name: metrics.unreadable for name, metrics in records.metrics.items() if metrics.unreadable}
    lost = {name: metrics.lost for name, metrics in records.metrics.items() if metrics.lost}
    return [
        *(f"stages/{name}/metrics.jsonl: {plural(n, 'line')} left out as unreadable" for name, n in broken.items()),
        *(f"stages/{name}/metrics.jsonl: {plural(n, 'line')} could not be written" for name, n in lost.items()),
    ]


def _summed(records: Records) -> list[str]:
    """Long runs, of which not every step has a record."""
    return [
        f"stages/{name}/metrics.jsonl has sums of several steps after the first {FULL_STEPS} of a stream: totals are "
        "exact, the history of the queue ends there"
        for name, metrics in records.metrics.items()
        if any(step.count > 1 for step in metrics.steps)
    ]


def _uncounted(streams: list[StreamPart]) -> list[str]:
    """Readers whose steps could not be counted, so that only their exit code was checked."""
    return [
        f"how much {reader.stage} read of {stream.name} could not be counted: only its exit code was checked"
        for stream in streams
        for reader in stream.readers
        if reader.steps is None
    ]


def _bytes_of_readers(streams: list[StreamPart]) -> list[str]:
    """Streams whose writer does not record how much it writes."""
    notes = []
    for stream in streams:
        most = max(stream.readers, key=lambda reader: reader.bytes or 0, default=None)
        if stream.bytes_are == "unknown" and stream.steps:
            only = f": ADIOS2's log has them of TCP only, not of {stream.transport}" if stream.transport else ""
            notes.append(f"the bytes of {stream.name} are not known{only}, and none of its stages keeps metrics")
        elif stream.bytes_are == "at_least" and most:
            notes.append(f"the bytes of {stream.name} are those that the first rank of {most.stage} received")
        elif stream.bytes_are == "stored":
            what = f"the size of its files, with gaps that {stream.engine} leaves"
            notes.append(f"the bytes of {stream.name} are {what}: {stream.writer} records none")
        elif stream.bytes_are == "read" and most:
            notes.append(f"the bytes of {stream.name} are those that {most.stage} read: {stream.writer} records none")
    return notes


def _dropped(plan: Plan, streams: list[StreamPart]) -> list[str]:
    """Steps that a full queue discarded."""
    return [
        f"{reader.stage} missed {reader.dropped} of the {plural(stream.steps or 0, 'step')} of "
        f"{_offered(plan, stream)}: its full queue discards steps"
        for stream in streams
        for reader in stream.readers
        if reader.dropped and stream.when_full == "discard"
    ]


def _removed(records: Records) -> list[str]:
    """Steps of another run that had been removed before they could be read."""
    return [
        f"{name} missed {plural(steps, 'step')} of {stream}: the run that it follows had removed them"
        for name, metrics in records.metrics.items()
        for stream, steps in metrics.removed.items()
    ]


def _offered(plan: Plan, stream: StreamPart) -> str:
    """The stream that the user tapped, for one from a relay to a tap."""
    tapped = next((each.name for each in plan.streams if stream.writer in each.readers), "")
    return f"{tapped} offered to it" if tapped and plan.stage(stream.writer).added == "relay" else stream.name


def _unchecked(plan: Plan, streams: list[StreamPart]) -> list[str]:
    """Compressed streams whose values no reader compared with the originals."""
    notes = []
    for stream in streams:
        compressed = any(end.operators for end in plan.stage(stream.writer).ends if end.stream == stream.name)
        for reader in stream.readers:
            if compressed and stream.steps and not reader.accuracy:
                blind = [name for name in (stream.writer, reader.stage) if plan.stage(name).observed == "evidence"]
                why = f"{blind[0]} does not use workflow.stage" if blind else f"{reader.stage} read nothing compressed"
                notes.append(f"what compression did to {stream.name} was not checked for {reader.stage}: {why}")
    return notes


def _larger(streams: list[StreamPart]) -> list[str]:
    """Streams with steps larger than planned, for which the planned bound of the queue does not hold."""
    notes = []
    for stream in streams:
        if stream.step_size is None or not stream.bytes or not stream.steps:
            continue
        measured = stream.bytes / stream.steps
        if measured > TOLERANCE * stream.step_size:
            queue = (
                f", and the queue up to {size(stream.queue_memory * measured / stream.step_size)}"
                if stream.queue_memory
                else ""
            )
            notes.append(
                f"steps of {stream.name} were {size(measured)} on average{queue}, but planned as "
                f"{size(stream.step_size)}: correct `streams.{stream.name}.step_size`"
            )
    return notes


# Of the members of an ensemble, which may all say the same.
MOST_OF_ENSEMBLE = 3


def program_notes(stages: Sequence[StagePart]) -> list[str]:
    """What programs say of their run; of the members of an ensemble the first ones."""
    said: dict[str, list[str]] = {}
    for stage in stages:
        said.setdefault(stage.ensemble or stage.name, []).extend(f"{stage.name}: {text}" for text in stage.notes)
    members = {stage.ensemble for stage in stages}
    found = []
    for name, texts in said.items():
        most = MOST_OF_ENSEMBLE if name in members else len(texts)
        left_out = len(texts) - most
        more = [f"{plural(left_out, 'more note')} of members of {name}: `--json`"] if left_out > 0 else []
        found += [*texts[:most], *more]
    return found


def make_restarts(records: Records) -> list[RestartPart]:
    """All of them, in order."""
    return [_part(records, decided, begun) for decided, begun in attempts_of(records.state)]


def attempts_of(state: RunState) -> list[tuple[RestartDecided, StagesRestarted | None]]:
    """Each restart that was decided, with the attempt that has followed; None: none has.

    Of one attempt some of the stages may have been left out after the decision.
    """
    left, found = [*state.attempts], []
    for decided in state.restarts:
        its = next((each for each in left if each.t >= decided.t and {*each.stages} <= {*decided.stages}), None)
        left = [each for each in left if each is not its]
        found.append((decided, its))
    return found


def _part(records: Records, decided: RestartDecided, begun: StagesRestarted | None) -> RestartPart:
    next_step = _next_step(records, decided) if begun is not None else None
    return RestartPart(
        t=decided.t,
        stage=decided.stage,
        stages=decided.stages,
        reason=decided.reason,
        attempt=None if begun is None else begun.attempt,
        first_step=None if begun is None else begun.first_step,
        replayed=None if begun is None else max(0, decided.step - _first_read(records, decided.stage, begun)),
        gap_s=None if next_step is None else next_step - decided.t,
        skipped=decided.skips if begun is not None and decided.skips in begun.skipped.get(decided.stage, ()) else None,
    )


def _first_read(records: Records, stage: str, begun: StagesRestarted) -> int:
    """The first step that this stage reads again."""
    read = [end.stream for end in records.plan.stage(stage).ends if end.side == "read"]
    return min((begun.begins(stage, stream) for stream in read), default=begun.first_step)


def _next_step(records: Records, decided: RestartDecided) -> float | None:
    """When the stage that failed has finished a step again (Unix s)."""
    seen = [t for key, steps in records.seen.items() if key[1] == decided.stage for t, _ in steps if t > decided.t]
    return min(seen, default=None)


def begin_notes(run: RunPart, stages: Sequence[StagePart]) -> list[str]:
    """With which run this one goes on, and where its stages began; or what is re-used."""
    done = [stage.name for stage in stages if stage.first_step is None]
    if run.reused_from:
        return [f"{listing(done)}: not run, but re-used from {run.reused_from}"]
    if not run.goes_on_with:
        return []
    firsts: dict[int, list[str]] = {}
    for stage in stages:
        if stage.first_step is not None:
            firsts.setdefault(stage.first_step, []).append(stage.name)
    begun = [f"{listing(names)} began at step {first}" for first, names in sorted(firsts.items())]
    had = [f"{listing(done)} had done {'its' if len(done) == 1 else 'their'} work"] if done else []
    which = part_text(run.part, run.parts)
    return [f"{which} of the run, which goes on with {run.goes_on_with}: {'; '.join([*had, *begun])}"]


def change_notes(plan: Plan) -> list[str]:
    """What differs from the part before."""
    part = plan.part
    return [] if part is None else [f"changed since {PurePath(part.run).name}: {each}" for each in part.changed]


def restart_note(part: RestartPart) -> str:
    """One restart in a sentence."""
    others = [each for each in part.stages if each != part.stage]
    together = f", together with {listing(others)}" if others else ""
    if part.attempt is None:
        return f"{part.stage} {part.reason}; it was to be started again{together}"
    again = f"attempt {part.attempt} began at step {part.first_step}{together}"
    if part.skipped is not None:
        again += f", without step {part.skipped}, at which it failed twice"
    if part.replayed:
        again += f", so that {part.stage} did {part.replayed} of its steps twice"
    gap = "" if part.gap_s is None else f"; its next step was done {duration(part.gap_s)} later"
    return f"{part.stage} {part.reason}; {again}{gap}"
