"""`output.files: each_step`: a BP stream as one output per step. Pure.

Only `workflow.stage` writes and reads it (`workflow.formats.step_files`): a program that opens an engine itself opens
one path.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.formats.step_files import NUMBERED_NAME
from workflow.plan.plan_model import Coupling
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import JoinedStream


def name_in_directory(stream: JoinedStream, stages: Mapping[str, DeclaredStage]) -> str:
    """The name of the files of a stream that has one per step; empty for other streams."""
    return NUMBERED_NAME if _asked(stream, stages) and stream.engine.traits.counted_by == "index" else ""


def check_step_outputs(
    stream: JoinedStream, coupling: Coupling, stages: Mapping[str, DeclaredStage], notes: Notes
) -> None:
    """Notes who cannot write or read such a stream, and what has no effect on it."""
    if not _asked(stream, stages) or stream.writer is None:
        return
    writer, engine = stages[stream.writer.stage], stream.engine
    key = f"stages.{writer.name}.output.files"
    # What is read must tell that a file is whole: only those with an index do.
    if engine.traits.counted_by != "index":
        if not stream.into_pipe:
            why = "hands steps from memory to memory" if engine.traits.in_memory else "has no steps in files of its own"
            notes.why(key, f"no effect on stream {stream.name}: {engine.engine} {why}")
            notes.advise(f"{key} has no effect on stream {stream.name}: {engine.engine} {why}; it has with `--via bp5`")
        return
    notes.why(f"streams.{stream.name}.path", f"`files: each_step` of stage {writer.name}: one output per step")
    if coupling == "live":
        notes.problems.add(
            key,
            f"a live reader cannot follow stream {stream.name} from output to output",
            f"write `files: one`, or `coupling: after` in streams.{stream.name}",
        )
    for port in stream.ports:
        if not stages[port.stage].spec.uses_stage:
            notes.problems.add(
                key,
                f"stage {port.stage} {port.side}s stream {stream.name} without workflow.stage: it opens one output",
                "write `files: one`",
            )
    if writer.spec.output.async_ in ("guided", "naive"):
        notes.advise(
            f"stages.{writer.name}.output.async hides little of stream {stream.name}: with `files: each_step` every "
            "step ends with closing its output, which waits until it is written"
        )


def _asked(stream: JoinedStream, stages: Mapping[str, DeclaredStage]) -> bool:
    return stream.writer is not None and stages[stream.writer.stage].spec.output.files == "each_step"
