"""Which streams go through memory that the stages of one node share (decisions 80 and 83).

Where `via: shm` or `transport: shm` is written, and, with `via: sst` and `transport: auto`, where nothing that is known
speaks against it and nothing is asked for that only SST has. Elsewhere a stream stays with SST. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from workflow.engines import DEFAULT_VIA, NODE_VIA
from workflow.plan.placement.nodes import nodes_text, share_one_node
from workflow.plan.plan_model import Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.site.site_model import Site
from workflow.spec.engine_presets import changed_settings, engines_with
from workflow.spec.models.engine import Engine
from workflow.spec.origins import Origins
from workflow.spec.placeholder_syntax import Placeholder, PlaceholderError, parse
from workflow.spec.suggest import listing

MEASURED = "measured: docs/benchmarks.md"


class SharedStreams(NamedTuple):
    """All streams, with the engine of common memory where it takes the place of SST. `unshared`: why the others stay
    with SST, by their names."""

    joined: dict[str, JoinedStream]
    unshared: dict[str, str]


def share_memory(
    joined: Mapping[str, JoinedStream],
    presets: Mapping[str, Engine],
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    python: str,
    site: Site,
    origins: Origins,
    notes: Notes,
) -> SharedStreams:
    """Which streams go through common memory, and why. `python`: that of wf."""
    found, unshared = dict(joined), dict[str, str]()
    for name, stream in joined.items():
        if not stream.engine.traits.over_network or NODE_VIA not in presets:
            continue
        if _is_written(stream, origins):
            notes.why(f"streams.{name}.transport", f"requested ({origins.of(f'streams.{name}.transport')})")
        elif why := _why_not_shared(stream, stages, placements, python, site, origins):
            unshared[name] = why
            continue
        else:
            where = nodes_text(placements[stream.ports[0].stage].nodes)
            own = dict.fromkeys(port.stage for port in stream.ports if stages[port.stage].spec.command is not None)
            taken = f"{listing(own)}: a port without `io` is opened by workflow.stage; " if own else ""
            why = f"auto: shared memory, all ends are on {where} and use workflow.stage ({taken}{MEASURED})"
            # Of a pipe, a tap or a member, the transport is that of the stream that the user wrote.
            written = origins.written(f"streams.{name}.transport").split(".")[1]
            of = "" if written == name else f" of stream {written}"
            notes.why(f"streams.{name}.transport", f"{why}; `transport: tcp`{of} goes back to {stream.engine.engine}")
        found[name] = stream._replace(engine=presets[NODE_VIA])
    return SharedStreams(found, unshared)


def preset_over_transport(stream: JoinedStream, origins: Origins) -> int:
    """How much stronger the layer is that sets `via` of a stream than the one that sets `transport`: the stronger one
    decides where both name a way. In one layer they must agree."""
    return origins.strength(f"streams.{stream.name}.via") - origins.strength(f"streams.{stream.name}.transport")


def _why_not_shared(
    stream: JoinedStream,
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    python: str,
    site: Site,
    origins: Origins,
) -> str:
    """Why a stream for which no transport was asked stays with SST; empty where shared memory takes its place."""
    spec, engine = stream.spec, stream.engine.engine
    if spec.via.lower() != DEFAULT_VIA or spec.transport != "auto":
        return f"`via: {spec.via}` is {engine} by name"
    if named := _named_from_outside(stream, origins):
        return f"`via: {spec.via}` from {named} is {engine} by name"
    if own := changed_settings(spec.via.lower(), stream.engine):
        return f"the preset `{spec.via}` is one of your own, and differs in `{own[0]}`"
    if stream.writer is None or not stream.readers:
        return "an end is missing"
    if not share_one_node(placements[port.stage] for port in stream.ports):
        return "the ranks are on several nodes"
    if not site.peer_memory:
        return closed_memory(site)
    names = list(dict.fromkeys(port.stage for port in stream.ports))
    if others := [each for each in names if not stages[each].spec.uses_stage]:
        return f"{listing(others)} do{'es' if len(others) == 1 else ''} not use workflow.stage"
    if others := [each for each in names if not _has_wfs_python(stages[each], python)]:
        return f"the Python of {listing(others)} is not `${{{{ wf.python }}}}`, and may have another workflow.stage"
    if spec.interface:
        return f"`interface` is for {engine}"
    # Those of other engines may stay where one key switches the stream.
    if asked := [key for key in spec.parameters if key in stream.engine.parameters or not engines_with(key)]:
        return f"`{asked[0]}` is a parameter of {engine}"
    writer = stages[stream.writer.stage]
    if writer.spec.output.compression and not (writer.spec.output.async_ == "pipe" and stream.into_pipe):
        return f"only {engine} applies `output.compression` of {writer.name}"
    return ""


def closed_memory(site: Site) -> str:
    """That processes may not read each other's memory on a site, and how that is known."""
    seen = site.seen.get("peer_memory", f"site {site.site} says `peer_memory: false`")
    return f"processes may not read each other's memory here ({seen})"


def _is_written(stream: JoinedStream, origins: Origins) -> bool:
    """Whether `transport: shm` decides: over a preset with a transport of its own only from a stronger layer."""
    if stream.spec.transport != NODE_VIA:
        return False
    return "DataTransport" not in stream.engine.write or preset_over_transport(stream, origins) < 0


def _named_from_outside(stream: JoinedStream, origins: Origins) -> str:
    """The layer over the file that sets `via`, or the parameter that fills it in, unless a layer as strong leaves the
    transport to the plan.

    Who sets `via` so compares engines by their names, or wants this one: a campaign, a profile, an option.
    """
    key, written = f"streams.{stream.name}.via", stream.spec.model_fields_set
    if "via" not in written or ("transport" in written and preset_over_transport(stream, origins) <= 0):
        return ""
    return origins.layer(key) or origins.from_parameters(key).strip(" ()").removeprefix("from ")


def _has_wfs_python(stage: DeclaredStage, python: str) -> bool:
    """Whether it is certain that its program has this `workflow.stage`, and no container of its own."""
    if stage.spec.command is None:
        return True
    program = str(stage.spec.command[0])
    try:
        parts = [part for part in parse(program) if part != ""]
    except PlaceholderError:  # reported elsewhere
        return False
    names = [part.name if isinstance(part, Placeholder) else "" for part in parts]
    return program == python or names == ["wf.python"]


def check_shared(
    stream: JoinedStream,
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    site: Site,
    problems: Problems,
) -> None:
    """Refuses an engine of common memory where there is none, and for programs that do not know it."""
    by_transport = stream.spec.transport == NODE_VIA and stream.spec.via != NODE_VIA
    key = f"streams.{stream.name}.{'transport' if by_transport else 'via'}"
    instead = "`transport: auto`" if by_transport else f"`via: {DEFAULT_VIA}`"
    engine, names = stream.engine.engine, list(dict.fromkeys(port.stage for port in stream.ports))
    if others := [name for name in names if not stages[name].spec.uses_stage]:
        text = f"{engine} is for programs that open their streams with workflow.stage: not so for {listing(others)}"
        problems.add(key, text, f"use {instead}")
    elif not share_one_node(placements[name] for name in names):
        where = [f"{name} is on {nodes_text(placements[name].nodes)}" for name in names]
        hint = f"put them on one node (`place: {{share: {names[0]}}}`), or use {instead}"
        problems.add(key, f"{engine} joins stages on one node, and {listing(where)}", hint)
    elif not site.peer_memory:
        hint = f"use {instead}, or `peer_memory: true` in the site's file if its compute nodes allow it"
        problems.add(key, f"{engine} cannot be opened: {closed_memory(site)}", hint)
