"""Is the transport that runs the one that was asked for? By ADIOS2's log, never by its configuration. Pure."""

from __future__ import annotations

from workflow.run.state import EndState, RunState
from workflow.sst_transports import transport_of_plane

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
    ends = state.plan.stage(writer.stage).ends
    planned = next(end for end in ends if (end.stream, end.side) == (writer.stream, "write"))
    if planned.transport is None or writer.plane in ("", planned.transport):
        return ""
    name, word = transport_of_plane(planned.transport), _why(writer)
    asked = "planned" if state.plan.stream(writer.stream).fallback else "asked for"
    took = f"transport {name} was {asked}, but ADIOS2 took {transport_of(writer)}"
    reason = _REASONS.get(word, "the program sets another, or was given no config file")
    way = _WAYS.get(word, "`config: adios2.xml` in the stage's `writes:` makes one, which the program has to read")
    return f"stream {writer.stream}: {took}: {reason.format(name=name)}; {way.format(name=name)}"


def _why(writer: EndState) -> str:
    """`not found` or `not available`; the log says it after the name of the plane."""
    return " ".join(writer.plane_why.split()[1:])
