"""Checks by ADIOS2's log that a stream uses the requested transport and delivers data. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from workflow.run.state.run_state import EndState, RunState
from workflow.sst_transports import TRANSPORTS, SstTransport, transport_of_plane

_REASONS = {
    "not found": "{name} is not built into its ADIOS2",
    "not available": "its ADIOS2 has {name}, but that cannot run here",
}
_WAYS = {
    "not found": "`make adios2-mpi` builds an ADIOS2 with it, then run `.venv-mpi/bin/wf`; or `transport: auto`",
    "not available": "`transport: auto` takes what there is; docs/how-to/transports.md says what {name} needs",
}


def transport_of(end: EndState) -> str:
    """The transport that a writing end took; empty where that is not known."""
    return transport_of_plane(end.plane)


def wrong_transport(state: RunState) -> tuple[str, str] | None:
    """(the writing stage, what is wrong) of a stream whose transport was asked for, and is another."""
    for stream in state.plan.streams:
        writer = state.ends.get((stream.name, stream.writer, "write"))
        if writer is not None and not stream.fallback and (text := difference(state, writer)):
            return writer.stage, text
    return None


def difference(state: RunState, writer: EndState) -> str:
    """How the transport of a stream differs from the plan's, why, and the way out; empty when it does not."""
    planned = state.plan.stage(writer.stage).end(writer.stream, "write")
    if planned.transport is None or writer.plane in ("", planned.transport):
        return ""
    name, word = transport_of_plane(planned.transport), _why(writer)
    asked = "planned" if state.plan.stream(writer.stream).fallback else "requested"
    took = f"transport {name} was {asked}, but ADIOS2 took {transport_of(writer)}"
    reason = _REASONS.get(word, "the program sets another, or was given no config file")
    way = _WAYS.get(word, "`config: adios2.xml` in the stage's `writes:` makes one, which the program has to read")
    return f"stream {writer.stream}: {took}: {reason.format(name=name)}; {way.format(name=name)}"


def _why(writer: EndState) -> str:
    """`not found` or `not available`; the log says it after the name of the plane."""
    return " ".join(writer.plane_why.split()[1:])


def misdirected_message(state: RunState) -> str:
    """What is wrong, and the way out, where EVPath sent a message to the wrong process; empty where it did not.

    The message is lost, and SST does not send it again: whoever waits for it waits for ever. No stage is to blame.
    A log alone ends no run: a deadline that passes names this as its cause.
    """
    faults = [stage.fault for stage in state.stages.values() if stage.fault is not None]
    fault = next((each for each in faults if each.fault == "misdirected"), None)
    if fault is None:
        return ""
    return (
        f"a message of SST for another process came to {fault.stage} and was dropped (`{fault.line}` in its stderr): "
        "two processes have the same id in EVPath, the network layer of ADIOS2. Run it again: the ids will be others. "
        "`make adios2-mpi` builds an ADIOS2 that gives each process an id of its own (docs/how-to/transports.md)"
    )


def with_transport(state: RunState, reason: str) -> str:
    """The reason of a failure, and what the transport has to do with it. A log may tell that after the failure only."""
    found = [misdirected_message(state), *(_unread(state, end) for end in state.ends.values())]
    cause = next((text for text in found if text and text not in reason), "")
    return f"{reason}: {cause}" if cause else reason


def _unread(state: RunState, reader: EndState) -> str:
    """Of a stream between nodes that opened, and whose reader has never got a step: its transport may not reach.

    Empty where the writer failed first: then its reader reaches nobody, by any transport.
    """
    taken, writer = _taken(state, reader.stream), state.writer(reader.stream)
    if reader.side == "write" or taken is None or not taken.needs_fabric or reader.steps or not writer.steps:
        return ""
    if state.culprit != reader.stage or not _are_on_several_nodes(state, (reader.stage, writer.stage)):
        return ""
    fault = state.stages[reader.stage].fault
    seen = f" (in the stderr of {reader.stage}: `{fault.line}`)" if fault is not None else ""
    return (
        f"{reader.stream} uses transport {taken.name}, which needs an RDMA network between the nodes{seen}. Where "
        f"there is none, take `transport: tcp`; with `fabric: false` in the site's file the plan refuses {taken.name}"
    )


def _taken(state: RunState, stream: str) -> SstTransport | None:
    """By ADIOS2's log, else as planned; None where neither is known."""
    name = transport_of(state.writer(stream)) or state.plan.stream(stream).transport
    return next((each for each in TRANSPORTS.values() if each.name == name), None)


def _are_on_several_nodes(state: RunState, stages: Iterable[str]) -> bool:
    nodes = {span for stage in stages for span in state.plan.stage(stage).placement.nodes}
    return len(nodes) > 1 or any(end - start > 1 for start, end in nodes)
