"""Advice on a plan that is valid. Nothing here is a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import StagePlan, StreamPlan
from workflow.plan.plan_notes import Notes
from workflow.plan.programs.placeholder_expansion import names_config
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import KEY_OF_SIDE, JoinedStream
from workflow.site.site_model import Site
from workflow.spec.models.stage_policies import OPENPMD

# SST's TCP plane opens a connection per pair of ranks and serves them from one thread per process
MANY_NODES_FOR_TCP = 16
# wf gives the path to these in their deck or arguments.
_WITH_PATH = ("warpx", "picongpu")
# Files of options that a program must be told of, or open by itself.
_OPTION_FILES = ("openpmd.json", "openpmd.toml")


def advise(
    stages: Sequence[StagePlan],
    streams: Sequence[StreamPlan],
    joined: Mapping[str, JoinedStream],
    declared: Mapping[str, DeclaredStage],
    mentioned: Mapping[str, set[str]],
    parts: int,
    site: Site,
    notes: Notes,
) -> None:
    """Adds advice on streams, stages to the notes, in the file's order.

    `mentioned` names the streams that each stage's command, env or files use in a placeholder; `parts`: how many jobs
    may go on with the run.
    """
    by_name = {stage.name: stage for stage in stages}
    if (seen := site.seen.get("cores_per_node")) is not None:
        notes.advise(
            f"site {site.site} does not say what a node has: its cores and memory are taken from {seen}; "
            "`wf site probe` on a compute node writes a file that says it"
        )
    for stream in streams:
        _on_stream(stream, by_name, notes)
        _on_programs(joined[stream.name], stream, declared, mentioned, notes)
    _on_diamonds(streams, declared, notes)
    _on_checkpoints(by_name, streams, notes)
    if parts > 1:
        _on_parts(stages, declared, notes)


def _on_checkpoints(stages: Mapping[str, StagePlan], streams: Sequence[StreamPlan], notes: Notes) -> None:
    """What a stage saves helps no run that goes on while one that needs its steps from memory begins anew."""
    by_reader = _by_reader(each for each in streams if not each.is_kept and not each.has_whole_spool)
    for stage in stages.values():
        above = _above(stage.name, by_reader) - {stage.name} if stage.from_start else set[str]()
        if saving := [name for name in above if stages[name].checkpoint is not None]:
            names = " and ".join(sorted(saving))
            notes.advise(
                f"stages.{stage.name}: {stage.name} {stage.from_start}; so `wf resume` begins with the first step, of "
                f"{names} too, whatever {names} has saved; a file between them (`via: bp5`) would keep the steps"
            )


def _on_parts(stages: Sequence[StagePlan], declared: Mapping[str, DeclaredStage], notes: Notes) -> None:
    """A simulation that saves nothing cannot go on in the next job."""
    for stage in stages:
        if stage.checkpoint is not None or any(end.side == "read" for end in stage.ends):
            continue
        component = declared[stage.name].component
        can = component is None or component.state == "saved"
        hint = f"add `checkpoint` to stages.{stage.name}" if can else "its component cannot"
        text = f"{stage.name} saves nothing, so that it begins anew in each part until it has ended"
        notes.advise(f"allocation.parts: {text}; {hint}")


def _on_stream(stream: StreamPlan, stages: Mapping[str, StagePlan], notes: Notes) -> None:
    ends = [stages[name] for name in (stream.writer, *stream.readers)]
    name, say = stream.name, notes.advise
    if stream.queue is not None and stream.queue.when_full == "discard":
        say(f"stream {name}: steps are dropped while the queue is full; the report counts them")
        # What is archived is meant to be whole, unless a queue of one step asks for the latest.
        for tap in stream.readers if stream.queue.limit > 1 else []:
            if stages[tap].added == "tap" and stages[tap].component == "archive":
                say(f"tap {tap}: a tap may lose steps; `queue: {{when_full: block}}` keeps them all")
    nodes = sum(node_count(stage.placement) for stage in ends)
    if nodes > MANY_NODES_FOR_TCP and stream.transport == "tcp":
        say(f"stream {name}: {nodes} nodes; SST's TCP transport is not meant for so many; prefer `transport: rdma`")
    spread = {node for stage in ends for node in stage.placement.nodes}
    if len(spread) > 1 or any(node_count(stage.placement) > 1 for stage in ends):
        say("stages on several nodes meet through files: the run directory must be on a file system that all nodes see")


def _on_programs(
    joined: JoinedStream,
    stream: StreamPlan,
    declared: Mapping[str, DeclaredStage],
    mentioned: Mapping[str, set[str]],
    notes: Notes,
) -> None:
    """A program of the user's own needs the path and the engine from somewhere, and ADIOS2 has limits of its own."""
    if joined.writer is not None and joined.writer.dialect in OPENPMD and stream.traits.over_network:
        notes.advise(
            f"stream {stream.name}: SST (ADIOS2 2.11 and 2.12) loses attributes that are lists of texts, such as "
            "`axisLabels`: readers get an empty text; `via: bp5` keeps them"
        )
    for port in joined.ports:
        if declared[port.stage].spec.uses_stage:
            continue
        if stream.name not in mentioned[port.stage] and port.dialect not in _WITH_PATH and not port.path:
            notes.advise(
                f"stage {port.stage}: nothing in its command, env or files uses "
                f"`${{{{ streams.{stream.name}.path }}}}`, so the program must know that path by itself; "
                "`path:` of its port names one that is fixed"
            )
        if port.dialect in _OPTION_FILES and not names_config(declared[port.stage], stream.name, port.config or ""):
            notes.advise(
                f"stages.{port.stage}.{KEY_OF_SIDE[port.side]}.{port.name}.config: nothing in its command, env or "
                f"files names {port.config} or `${{{{ streams.{stream.name}.config }}}}`: a program that does not read "
                "that file by itself takes the defaults of openPMD-api"
            )
        if port.dialect is None and port is joined.writer and stream.traits.in_memory and len(joined.readers) > 1:
            count = len(joined.readers)
            notes.advise(
                f"streams.{stream.name}.to: {count} readers, and wf cannot tell {port.stage} so, as its port has no "
                f"`config:`: if RendezvousReaderCount is not {count} in the program itself, it begins when the first "
                "one has come, and the others lack steps or wait"
            )
        elif port.dialect is None and stream.traits.has_steps:
            notes.advise(
                f"stage {port.stage}: no config file for stream {stream.name}, so engine {stream.engine} "
                "and its parameters are up to the program: `config: adios2.xml` writes one"
            )


def _on_diamonds(streams: Sequence[StreamPlan], declared: Mapping[str, DeclaredStage], notes: Notes) -> None:
    """Two ways in memory between two stages: opened in different orders, they wait for each other in a circle."""
    by_reader = _by_reader(each for each in streams if each.traits.in_memory)
    for reader, read in by_reader.items():
        if len(read) < 2:
            continue
        above = [_above(stream.writer, by_reader) for stream in read]
        for index, one in enumerate(read):
            for other, sources in zip(read[:index], above[:index], strict=True):
                common = [name for name in declared if name in sources and name in above[index]]
                # Those that use `workflow.stage` all open their streams in the pipeline's order.
                if common and not all(declared[name].spec.uses_stage for name in (reader, common[0])):
                    notes.advise(
                        f"stage {reader} reads {other.name} and {one.name} by {one.engine}, and both lead back to "
                        f"{common[0]}: every open waits for its other end, so {reader} must open its streams in the "
                        f"same order as {common[0]}"
                    )


def _by_reader(streams: Iterable[StreamPlan]) -> dict[str, list[StreamPlan]]:
    found: dict[str, list[StreamPlan]] = {}
    for stream in streams:
        for reader in stream.readers:
            found.setdefault(reader, []).append(stream)
    return found


def _above(stage: str, by_reader: Mapping[str, Sequence[StreamPlan]]) -> set[str]:
    """The stage and all from which data reaches it so."""
    found, todo = {stage}, [stage]
    while todo:
        writers = {stream.writer for stream in by_reader.get(todo.pop(), ())} - found
        found |= writers
        todo += writers
    return found
