"""`async: pipe` and `tap:` as ordinary stages and streams: the first pass of the plan.

A stream that a pipe writes keeps its name, its file and its readers. Its writer becomes the pipe, and a new stream
joins the simulation to the pipe. A tap becomes a stage. A tap that must not slow the others reads through a relay, a
stage that takes every step at once and offers it to the tap on a stream of its own: the queue policy of SST applies
to all readers of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from workflow.engines import DEFAULT_VIA, KEPT_VIA
from workflow.formats.sides import OnNode
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import CompletePipeline, DeclaredStage, ImplicitStage
from workflow.plan.topology.ports import JoinedStream
from workflow.spec.component_files import complete_parameters
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import OutputPolicy, PipelineSpec, Queue, StagePlace, StageSpec, StreamSpec, Tap
from workflow.spec.models.stage_policies import Keep
from workflow.spec.origins import Origins, WrittenKey
from workflow.spec.references import (
    RELAY,
    pipe_name,
    piped_streams,
    relay_name,
    relayed_taps,
    spool_name,
    spool_place,
    spool_steps,
    spooled_streams,
)

if TYPE_CHECKING:
    from workflow.spec.load import Loaded

# How a stream goes, which holds for the streams of its pipe and its taps: some of these go live where it is a file.
_WAY = ("transport", "interface")


@dataclass
class _Growing:
    """The pipeline as it grows: all streams so far, the stages that were added, and what is known of them."""

    streams: dict[str, StreamSpec] = field(default_factory=dict)
    stages: dict[str, StageSpec] = field(default_factory=dict)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    implicit: dict[str, ImplicitStage] = field(default_factory=dict)
    keys: dict[str, WrittenKey] = field(default_factory=dict)


def complete_pipeline(loaded: Loaded) -> CompletePipeline:
    """The pipeline with every pipe, relay and tap as a stage. Their names were checked when the file was loaded."""
    spec, growing = loaded.spec, _Growing()
    piped = piped_streams(spec, loaded.engines.get)
    spooled = spooled_streams(spec, loaded.engines.get)
    for name, stream in spec.streams.items():
        whole = _add_pipe(name, stream, piped[name], loaded, growing) if name in piped else stream
        if stream.tap:
            whole = _add_taps(name, whole, loaded, growing)
        if name in spooled:
            whole = _add_spool(name, whole, loaded, growing)
        growing.streams[name] = whole
    stages: dict[str, StageSpec] = {}
    for name, stage in spec.stages.items():
        pipes = [pipe_name(stream) for stream, writer in piped.items() if writer == name]
        stages |= {name: stage, **{pipe: growing.stages[pipe] for pipe in pipes}}
    stages |= growing.stages
    return CompletePipeline(
        spec=spec.model_copy(update={"stages": stages, "streams": growing.streams}),
        path=loaded.path,
        components=loaded.components,
        component_dirs=loaded.component_dirs,
        parameters=loaded.parameters | growing.parameters,
        engines=loaded.engines | growing.engines,
        templates=loaded.templates,
        origins=loaded.origins.with_added(growing.keys),
        implicit_stages=growing.implicit,
        implicit_streams=frozenset(growing.streams.keys() - spec.streams.keys()),
        renamed={
            stage: {
                **loaded.renamed.get(stage, {}),
                **{stream: pipe_name(stream) for stream in piped if piped[stream] == stage},
            }
            for stage in {*piped.values(), *loaded.renamed}
        },
        members=loaded.members,
        warnings=loaded.warnings,
    )


def _add_pipe(name: str, stream: StreamSpec, writer: str, loaded: Loaded, growing: _Growing) -> StreamSpec:
    """Adds the pipe of a file stream; returns the stream as the pipe writes it."""
    pipe, output = pipe_name(name), loaded.spec.stages[writer].output
    asked, wanted = f"stages.{writer}.output.async", output.pipe
    # All but `async` is about the files, and belongs to the stage that writes them.
    policy = OutputPolicy(**_given(output, "aggregation", "compression", "files"))
    growing.stages[pipe] = StageSpec(component=RELAY, ranks=wanted.ranks, place=_no_core(wanted.place), output=policy)
    growing.parameters[pipe] = _relay_parameters(loaded, [])
    start = _with_port(stream.from_, name, loaded)
    growing.streams[pipe] = StreamSpec(from_=start, to=pipe, **_given(stream, "step_size", *_WAY))
    growing.engines[pipe] = loaded.presets[DEFAULT_VIA]
    growing.implicit[pipe] = ImplicitStage("pipe", name, asked)
    growing.keys |= {
        f"stages.{pipe}": WrittenKey(asked, below=False),
        f"stages.{pipe}.ranks": WrittenKey(f"stages.{writer}.output.pipe.ranks"),
        f"stages.{pipe}.place": WrittenKey(f"stages.{writer}.output.pipe.place"),
        f"stages.{pipe}.output": WrittenKey(f"stages.{writer}.output"),
        f"streams.{pipe}": WrittenKey(asked, below=False),
        **{f"streams.{pipe}.{key}": WrittenKey(f"streams.{name}.{key}") for key in ("step_size", *_WAY)},
        f"streams.{name}.from": WrittenKey(asked, below=False),
    }
    return stream.model_copy(update={"from_": pipe})


def _add_taps(name: str, stream: StreamSpec, loaded: Loaded, growing: _Growing) -> StreamSpec:
    """Adds the taps of a stream, and the relay of those that must not slow it; returns the stream with its readers."""
    relayed, relay, readers = relayed_taps(loaded.spec, name, loaded.engines.get), relay_name(name), [*stream.readers]
    for tap, wanted in stream.tap.items():
        asked = f"streams.{name}.tap.{tap}"
        parts = _given(wanted, "component", "with_", "ranks", "place", "env", "memory")
        growing.stages[tap] = StageSpec(**parts)
        growing.implicit[tap] = ImplicitStage("tap", name, asked, is_optional=not wanted.required)
        growing.keys[f"stages.{tap}"] = WrittenKey(asked)
        if tap not in relayed:
            growing.keys[f"streams.{name}.to[{len(readers)}]"] = WrittenKey(asked, below=False)
            readers.append(tap)
    if relayed:
        asked = f"streams.{name}.tap"
        growing.stages[relay] = StageSpec(component=RELAY, place=_no_core(StagePlace()))
        growing.parameters[relay] = _relay_parameters(loaded, [tap.every for tap in relayed.values()])
        needed = any(wanted.required for wanted in relayed.values())
        growing.implicit[relay] = ImplicitStage("relay", name, asked, is_optional=not needed)
        growing.keys[f"stages.{relay}"] = WrittenKey(asked, below=False)
        growing.keys[f"streams.{name}.to[{len(readers)}]"] = WrittenKey(asked, below=False)
        readers.append(relay)
    # Before the tapped stream, as all open SST streams in this order: a tap that starts slowly is waited for in the
    # rendezvous, where the simulation still waits too, and not when the relay has steps to hand over.
    for tap, wanted in relayed.items():
        _add_stream_of_tap(tap, wanted, name, loaded, growing)
    return stream.model_copy(update={"to": readers})


def _add_spool(name: str, stream: StreamSpec, loaded: Loaded, growing: _Growing) -> StreamSpec:
    """Adds the stage that keeps the steps of a stream in a file; returns the stream with its readers.

    The file is a stream without readers: stages that are started again read from it.
    """
    spool, asked, readers = spool_name(name), f"streams.{name}.keep", [*stream.readers]
    # What is on a node can be read there only.
    beside = _reader_behind(stream, loaded.spec) if spool_place(stream) else None
    growing.stages[spool] = StageSpec(component=RELAY, place=_no_core(StagePlace(share=beside)))
    growing.parameters[spool] = _relay_parameters(loaded, [])
    # What has lost its first steps is of no use after the run, and what is on a node is not found again.
    whole = spool_steps(stream) is None and not spool_place(stream)
    kept = StreamSpec(
        from_=spool,
        to=spool,
        via=KEPT_VIA,
        coupling="live",
        keep=Keep(steps="all" if whole else 0),
        **_given(stream, "step_size"),
    )
    growing.streams[spool] = kept.model_copy(update={"to": []})
    growing.engines[spool] = loaded.presets[KEPT_VIA]
    growing.implicit[spool] = ImplicitStage("spool", name, asked, is_optional=True)
    growing.keys |= {
        f"stages.{spool}": WrittenKey(asked, below=False),
        f"streams.{spool}": WrittenKey(asked, below=False),
        f"streams.{name}.to[{len(readers)}]": WrittenKey(asked, below=False),
    }
    return stream.model_copy(update={"to": [*readers, spool]})


def _reader_behind(stream: StreamSpec, spec: PipelineSpec) -> str | None:
    """The stage on whose nodes the spool of a stream is: the first reader that is started again, or else the first."""
    readers = [name for end in stream.readers if (name := end.partition(".")[0]) in spec.stages]
    again = [name for name in readers if spec.stages[name].on_failure.do == "restart"]
    return next(iter([*again, *readers]), None)


def _add_stream_of_tap(tap: str, wanted: Tap, name: str, loaded: Loaded, growing: _Growing) -> None:
    """The stream from the relay to one tap: as the tapped stream goes, with the tap's own queue."""
    stream, engine, asked = loaded.spec.streams[name], loaded.engines[name], f"streams.{name}.tap.{tap}"
    # By SST too where the tapped stream is a file, which the relay reads.
    alike = ("via", "step_size", *_WAY) if engine.traits.in_memory else _WAY
    # Nothing of a file need be lost: only the relay waits for the tap.
    when_full = "discard" if engine.traits.in_memory else "block"
    # With room for one step, the one that the tap is at, SST drops all that come meanwhile: the next is a new one.
    queue = (
        Queue(when_full="discard", limit=1)
        if wanted.latest
        else Queue(**{"when_full": when_full, **_given(wanted.queue, "when_full", "limit")})
    )
    growing.streams[tap] = StreamSpec(from_=relay_name(name), to=tap, queue=queue, **_given(stream, *alike))
    growing.engines[tap] = loaded.engines[name] if "via" in alike else loaded.presets[DEFAULT_VIA]
    by_latest = WrittenKey(f"{asked}.latest", below=False)
    growing.keys |= {
        f"streams.{tap}": WrittenKey(asked, below=False),
        f"streams.{tap}.queue": by_latest if wanted.latest else WrittenKey(f"{asked}.queue"),
        **{f"streams.{tap}.{key}": WrittenKey(f"streams.{name}.{key}") for key in alike},
    }


def _given(model: BaseModel, *names: str) -> dict[str, Any]:
    """The fields of a model that the user wrote, of those named."""
    return {name: getattr(model, name) for name in names if name in model.model_fields_set}


def _no_core(place: StagePlace) -> StagePlace:
    """Without a core of its own unless the user gave it one: pipes and relays wait most of the time."""
    return place.model_copy(update={"cores_per_rank": 0}) if place.cores_per_rank is None else place


def _relay_parameters(loaded: Loaded, every: list[int]) -> dict[str, Any]:
    """All parameters of a relay that passes on one step of so many to each of its streams."""
    return complete_parameters(loaded.components[RELAY], {"every": every})


def _with_port(end: str, stream: str, loaded: Loaded) -> str:
    """The writing end with its port, where the port was found by the stream's name."""
    stage = loaded.spec.stages.get(end)
    if stage is None:
        return end
    ports = loaded.components[stage.component].writes if stage.component is not None else stage.writes
    return f"{end}.{stream}" if stream in ports else end


def pass_on(joined: Mapping[str, JoinedStream], pipeline: CompletePipeline) -> dict[str, JoinedStream]:
    """The streams with what follows from the stages that wf added, and from components that pass on steps.

    A stream from a pipe or a relay has the variables of the stream that its writer reads, so that both ends of a
    contract are compared as if nothing stood between them.
    """
    lends = {each.stream for each in pipeline.implicit_stages.values() if each.role in ("pipe", "relay")}
    found = {
        name: stream._replace(
            into_pipe=name in pipeline.implicit_streams, every=_every(name, pipeline), lends_transport=name in lends
        )
        for name, stream in joined.items()
    }
    for name, insertion in pipeline.implicit_stages.items():  # in the order in which the data pass through them
        if insertion.role == "tap":
            continue
        read = next((each for each in found.values() if name in (port.stage for port in each.readers)), None)
        for stream in list(found.values()):
            if read is not None and read.writer is not None and stream.writer and stream.writer.stage == name:
                passed = stream.writer._replace(variables=read.writer.variables)
                found[stream.name] = stream._replace(writer=passed)
    passing = [name for name, stream in found.items() if stream.writer is not None and stream.writer.passes]
    for _ in passing:  # as many as can stand one after another
        found |= {name: _passed(found[name], found) for name in passing}
    return found


def _passed(stream: JoinedStream, streams: Mapping[str, JoinedStream]) -> JoinedStream:
    """A stream of which the writer passes on steps that it reads, with the variables of these."""
    writer = stream.writer
    if writer is None or not writer.passes:
        return stream
    ends = {(port.stage, port.name): each.writer for each in streams.values() for port in each.readers}
    read = ends.get((writer.stage, writer.passes))
    if read is None or read.variables is None:
        return stream._replace(writer=writer._replace(variables=None))
    return stream._replace(writer=writer._replace(variables={**read.variables, **(writer.variables or {})}))


def _every(stream: str, pipeline: CompletePipeline) -> int:
    """How many steps of the tapped stream one step of this one stands for: a tap's `every`; else 1."""
    streams = pipeline.spec.streams
    relay = pipeline.implicit_stages.get(streams[stream].from_)
    if relay is None or relay.role != "relay":
        return 1
    return streams[relay.stream].tap[stream].every


def place_on_node(stream: str, pipeline: CompletePipeline) -> OnNode:
    """Where on its node the file of a stream is; empty for all but the spools that are asked for there."""
    stage = pipeline.implicit_stages.get(pipeline.spec.streams[stream].from_)
    if stage is None or stage.role != "spool":
        return ""
    return spool_place(pipeline.spec.streams[stage.stream])


def explain_implicit_stages(
    stages: Mapping[str, DeclaredStage], implicit: Mapping[str, ImplicitStage], origins: Origins, notes: Notes
) -> None:
    """Why each added stage is there: with `wf plan`, and `wf plan --explain stages.NAME`."""
    for name, insertion in implicit.items():
        stream, where = insertion.stream, origins.of(insertion.asked)
        said = {
            "pipe": f"receives the steps of {stream} by SST and writes its file instead of the writer",
            "relay": f"receives every step of {stream} at once and offers it to the taps, which may be slow",
            "tap": f"a tap of stream {stream}",
            "spool": f"keeps the steps of {stream}, for stages that are started again or attached",
        }[insertion.role]
        notes.why(f"stages.{name}", f"{said}: {insertion.asked} ({where})")
    for name, stage in stages.items():
        if stage.spec.output.async_ != "pipe":
            continue
        pipes = [each for each, found in implicit.items() if found.asked == f"stages.{name}.output.async"]
        nodes, ranks = stage.spec.place.nodes or 1, stage.spec.output.pipe.ranks
        if pipes and nodes > ranks:
            notes.advise(
                f"stage {name} runs on {nodes} nodes, and {' and '.join(pipes)} receives all its data on {ranks} of "
                f"them: with an ADIOS2 built with MPI, `stages.{name}.output.pipe.ranks: {nodes}` puts one rank on each"
            )
