"""A stage's output policies (aggregation, async, files) as engine parameters of the file streams that it writes.

BP5 parameters: source/adios2/engine/bp5/BP5Engine.h of ADIOS2 2.12.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workflow.formats.step_files import NUMBERED_NAME
from workflow.plan.plan_model import Coupling, Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.aggregation import advise_aggregation, aggregation_parameters
from workflow.plan.streams.compression import check_names
from workflow.plan.streams.engine_parameters import EngineSettings, to_text
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePorts
from workflow.site.site_model import Site
from workflow.spec.models.pipeline import StreamSpec


def check_output_policies(
    stages: Mapping[str, DeclaredStage],
    ports: Mapping[str, StagePorts],
    streams: Iterable[StreamSpec],
    problems: Problems,
) -> None:
    """Notes a policy of a stage that writes no stream, or of variables that it does not write."""
    writers = {stream.from_.partition(".")[0] for stream in streams}
    for name, stage in stages.items():
        policy = stage.spec.output
        check_names(stage, ports[name].write.values(), problems)
        plain = policy.aggregation is None and policy.async_ == "off" and policy.files == "one"
        if plain and not policy.compression:
            continue
        if name not in writers:
            message = f"stage {name} writes no stream, and `output` is about streams"
            problems.add(f"stages.{name}.output", message, "remove it")


def output_parameters(
    writer: DeclaredStage, stream: JoinedStream, coupling: Coupling, placement: Placement, site: Site, notes: Notes
) -> EngineSettings:
    """The engine parameters that the writing stage's `output:` gives this stream."""
    policy, engine = writer.spec.output, stream.engine
    found: EngineSettings = {}
    if policy.async_ == "pipe" and stream.into_pipe:
        return {}  # the pipe, which writes the file, has the policies
    if policy.aggregation is not None:
        if "NumAggregators" in engine.parameters:
            found.update(aggregation_parameters(writer, policy.aggregation, stream, placement, site, notes))
        else:
            _note_no_effect(f"stages.{writer.name}.output.aggregation", stream, notes)
    elif "NumAggregators" in engine.parameters:
        advise_aggregation(stream.name, placement, site, notes)
    if policy.async_ == "pipe":
        _note_no_effect(f"stages.{writer.name}.output.async", stream, notes)
    elif policy.async_ != "off":
        if "AsyncWrite" in engine.parameters:
            found["AsyncWrite"] = _async(writer.name, stream, policy.async_, coupling, notes)
        else:
            _note_no_effect(f"stages.{writer.name}.output.async", stream, notes)
    return found


def _async(stage: str, stream: JoinedStream, wanted: str, coupling: Coupling, notes: Notes) -> tuple[str, str]:
    if coupling == "live":
        notes.advise(
            f"stream {stream.name}: with `async: {wanted}` a live reader sees each step only when the next one begins, "
            f"and a killed writer loses its last step; `stages.{stage}.output.async: off` avoids both"
        )
    return to_text("AsyncWrite", stream.engine.parameters["AsyncWrite"], wanted), f"output.async: {wanted}"


def _note_no_effect(key: str, stream: JoinedStream, notes: Notes) -> None:
    """Advice, not a mistake: the policy may stay in the file for runs with `--via bp5`."""
    engine = stream.engine
    why = "hands steps from memory to memory" if engine.traits.in_memory else "has no such setting"
    notes.why(key, f"no effect on stream {stream.name}: {engine.engine} {why}")
    notes.advise(f"{key} has no effect on stream {stream.name}: {engine.engine} {why}; it has with `--via bp5`")


# `output.files: each_step`: a BP stream as one output per step. Pure.
#
# Only `workflow.stage` writes and reads it (`workflow.formats.step_files`): a program that opens an engine itself opens
# one path.


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
