"""Facts about stages that wf added: what they pass on, and why they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workflow.plan.plan_notes import Notes
from workflow.plan.topology.complete_pipeline import CompletePipeline, ImplicitStage
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import JoinedStream
from workflow.spec.origins import Origins


def pass_on(joined: Mapping[str, JoinedStream], pipeline: CompletePipeline) -> dict[str, JoinedStream]:
    """The streams with what follows from the stages that wf added.

    A stream from a pipe or a relay has the variables of the stream that its writer reads, so that both ends of a
    contract are compared as if nothing stood between them.
    """
    found = {
        name: replace(stream, into_pipe=name in pipeline.implicit_streams, every=_every(name, pipeline))
        for name, stream in joined.items()
    }
    for name, insertion in pipeline.implicit_stages.items():  # in the order in which the data pass through them
        if insertion.role == "tap":
            continue
        read = next((each for each in found.values() if name in (port.stage for port in each.readers)), None)
        for stream in list(found.values()):
            if read is not None and read.writer is not None and stream.writer and stream.writer.stage == name:
                passed = replace(stream.writer, variables=read.writer.variables)
                found[stream.name] = replace(stream, writer=passed)
    return found


def _every(stream: str, pipeline: CompletePipeline) -> int:
    """How many steps of the tapped stream one step of this one stands for: a tap's `every`; else 1."""
    streams = pipeline.spec.streams
    relay = pipeline.implicit_stages.get(streams[stream].from_)
    if relay is None or relay.role != "relay":
        return 1
    return streams[relay.stream].tap[stream].every


def explain_implicit_stages(
    stages: Mapping[str, DeclaredStage], implicit: Mapping[str, ImplicitStage], origins: Origins, notes: Notes
) -> None:
    """Why each added stage is there: with `wf plan`, and `wf plan --explain stages.NAME`."""
    for name, insertion in implicit.items():
        stream, where = insertion.stream, origins.of(insertion.asked)
        said = {
            "pipe": f"takes the steps of {stream} by SST and writes its file, so that the writer need not",
            "relay": f"takes every step of {stream} at once, and offers it to taps, which may be slow",
            "tap": f"a tap of stream {stream}",
        }[insertion.role]
        notes.why(f"stages.{name}", f"{said}: {insertion.asked} ({where})")
    for name, stage in stages.items():
        if stage.spec.output.async_ != "pipe":
            continue
        pipes = [each for each, found in implicit.items() if found.asked == f"stages.{name}.output.async"]
        nodes, ranks = stage.spec.place.nodes or 1, stage.spec.output.pipe.ranks
        if pipes and nodes > ranks:
            notes.advise(
                f"stage {name} runs on {nodes} nodes, and {' and '.join(pipes)} takes all its data through {ranks} of "
                f"them: with an ADIOS2 built with MPI, `stages.{name}.output.pipe.ranks: {nodes}` has one rank on each"
            )
