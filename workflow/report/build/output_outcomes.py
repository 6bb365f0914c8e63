"""What became of the policies of what stages write: errors of compression, sizes of steps. Pure."""

from __future__ import annotations

from workflow.formatting import percent, size
from workflow.plan.plan_model import Plan
from workflow.report.report_model import Report, StreamPart

# Steps may be so much larger than they were said to be before it is mentioned.
TOLERANCE = 1.05


def accuracy_lines(report: Report) -> list[str]:
    """What compression gained, and what it did to each variable, by reader."""
    lines = []
    for stream in report.streams:
        if stream.stored and stream.bytes:
            share = percent(stream.stored / stream.bytes)
            lines.append(f"{stream.name}: stored {size(stream.stored)} of {size(stream.bytes)} ({share})")
        lines += [
            f"{stream.name} → {reader.stage}: {each.text}" for reader in stream.readers for each in reader.accuracy
        ]
        lines += [f"{stream.name}: {name}: not checked: nobody read it" for name in stream.unread]
    return lines


def output_notes(plan: Plan, streams: list[StreamPart]) -> list[str]:
    """What to know about compressed streams and stated sizes."""
    return [*_unchecked(plan, streams), *_larger(streams)]


def _unchecked(plan: Plan, streams: list[StreamPart]) -> list[str]:
    """Compressed streams whose values nobody compared."""
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
    """Steps that were larger than the plan took them for, so that its bound of the queue does not hold."""
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
                f"steps of {stream.name} were {size(measured)} on average{queue}, the plan took them for "
                f"{size(stream.step_size)}: mend `streams.{stream.name}.step_size`"
            )
    return notes
