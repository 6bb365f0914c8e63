"""What the plan knows of stages that wf added: what they pass on, and why they are there."""

from __future__ import annotations

from dataclasses import replace

from workflow.plan.making import Making
from workflow.plan.topology.port_matching import Joined


def pass_on(joined: dict[str, Joined], making: Making) -> dict[str, Joined]:
    """The streams, those from a pipe or a relay with the variables of the stream that it reads.

    So that both ends of a contract are compared as if nothing stood between them.
    """
    found = dict(joined)
    for name, insertion in making.loaded.implicit_stages.items():  # in the order in which the data pass through them
        if insertion.role == "tap":
            continue
        read = next((each for each in found.values() if name in (port.stage for port in each.readers)), None)
        for stream in list(found.values()):
            if read is not None and read.writer is not None and stream.writer and stream.writer.stage == name:
                passed = replace(stream.writer, variables=read.writer.variables)
                found[stream.name] = replace(stream, writer=passed)
    return found


def explain_implicit_stages(making: Making) -> None:
    """Why each added stage is there: with `wf plan`, and `wf plan --explain stages.NAME`."""
    loaded = making.loaded
    for name, insertion in loaded.implicit_stages.items():
        stream, where = insertion.stream, loaded.origins.of(insertion.asked)
        said = {
            "pipe": f"takes the steps of {stream} by SST and writes its file, so that the writer need not",
            "relay": f"takes every step of {stream} at once, and offers it to taps, which may be slow",
            "tap": f"a tap of stream {stream}",
        }[insertion.role]
        making.notes.why(f"stages.{name}", f"{said}: {insertion.asked} ({where})")
    for name, stage in loaded.spec.stages.items():
        if stage.output.async_ != "pipe":
            continue
        pipes = [each for each, found in loaded.implicit_stages.items() if found.asked == f"stages.{name}.output.async"]
        nodes, ranks = stage.place.nodes or 1, stage.output.pipe.ranks
        if pipes and nodes > ranks:
            making.notes.advise(
                f"stage {name} runs on {nodes} nodes, and {' and '.join(pipes)} takes all its data through {ranks} of "
                f"them: with an ADIOS2 built with MPI, `stages.{name}.output.pipe.ranks: {nodes}` has one rank on each"
            )


def steps_between(stream: str, making: Making) -> int:
    """How many steps of the tapped stream one step of this one stands for: a tap's `every`; else 1."""
    loaded = making.loaded
    relay = loaded.implicit_stages.get(loaded.spec.streams[stream].from_)
    if relay is None or relay.role != "relay":
        return 1
    return loaded.spec.streams[relay.stream].tap[stream].every
