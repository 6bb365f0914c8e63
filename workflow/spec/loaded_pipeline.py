"""A pipeline that was read and checked; and the same with `async: pipe`, `tap:` and `spool:` as ordinary stages.

A stream that a pipe writes keeps its name, its file and its readers. Its writer becomes the pipe, and a new stream
joins the simulation to the pipe. A tap becomes a stage. A tap that must not slow the others reads through a relay, a
stage that takes every step at once and offers it to the tap on a stream of its own: the queue policy of SST applies
to all readers of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from workflow.engines import DEFAULT_VIA, KEPT_VIA
from workflow.errors import Problem
from workflow.spec.component_files import complete_parameters
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import OutputPolicy, PipelineSpec, Queue, StagePlace, StageSpec, StreamSpec, Tap
from workflow.spec.origins import Origins, WrittenKey
from workflow.spec.references import (
    RELAY,
    pipe_name,
    piped_streams,
    relay_name,
    relayed_taps,
    spool_name,
    spooled_streams,
)

Role = Literal["pipe", "relay", "tap", "spool"]


@dataclass(frozen=True)
class Loaded:
    """A pipeline file that was read and checked. The plan is made from this and the site."""

    spec: PipelineSpec = field(repr=False)
    path: Path
    """Absolute."""
    text: bytes = field(repr=False)
    """The file as given."""
    components: dict[str, Component] = field(repr=False)
    """By name; those that are used."""
    component_dirs: dict[str, Path] = field(repr=False)
    """Component name → the folder of its program, absolute."""
    parameters: dict[str, dict[str, Any]] = field(repr=False)
    """Stage or tap → its component's parameters, complete: defaults filled in, seconds and bytes, files absolute."""
    engines: dict[str, Engine] = field(repr=False)
    """Stream → what its `via` names."""
    presets: dict[str, Engine] = field(repr=False)
    """What a `via` may name → the engine: those that the streams use, and `sst` where pipes or taps need it."""
    templates: dict[str, dict[str, str]] = field(repr=False)
    """Stage → name → text of its `files:`. Files that are no text are not in it: they are copied unchanged."""
    origins: Origins = field(repr=False)
    options: tuple[str, ...] = ()
    """What was laid over the file, as options of `wf run`."""
    warnings: tuple[Problem, ...] = ()
    """What does not keep it from running."""
    python: str = ""
    """The Python that executes components, absolute; empty: that of wf."""

    @cached_property
    def completed(self) -> CompletePipeline:
        """The pipeline with every pipe, relay and tap as a stage: the plan is made from this."""
        return _complete(self)


@dataclass(frozen=True)
class ImplicitStage:
    """A stage that the user asked for without writing it. `asked` is the key that asks for it; `is_optional`: whether
    the run succeeds without it."""

    role: Role
    stream: str
    asked: str
    is_optional: bool = False


@dataclass(frozen=True)
class CompletePipeline:
    """A pipeline with its implicit stages and streams. The other attributes are those of `Loaded`."""

    spec: PipelineSpec = field(repr=False)
    path: Path
    components: Mapping[str, Component] = field(repr=False)
    component_dirs: Mapping[str, Path] = field(repr=False)
    parameters: Mapping[str, Mapping[str, Any]] = field(repr=False)
    engines: Mapping[str, Engine] = field(repr=False)
    templates: Mapping[str, Mapping[str, str]] = field(repr=False)
    origins: Origins = field(repr=False)
    implicit_stages: Mapping[str, ImplicitStage] = field(default_factory=dict)
    """By name, in the order in which the data pass through them."""
    implicit_streams: frozenset[str] = frozenset()
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Stage → stream in the stage's command, environment and files → the stream that the stage writes to its pipe."""


@dataclass
class _Growing:
    """The pipeline as it grows: all streams so far, the stages that were added, and what is known of them."""

    streams: dict[str, StreamSpec] = field(default_factory=dict)
    stages: dict[str, StageSpec] = field(default_factory=dict)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    implicit: dict[str, ImplicitStage] = field(default_factory=dict)
    keys: dict[str, WrittenKey] = field(default_factory=dict)


def _complete(loaded: Loaded) -> CompletePipeline:
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
            writer: {stream: pipe_name(stream) for stream in piped if piped[stream] == writer}
            for writer in piped.values()
        },
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
    growing.streams[pipe] = StreamSpec(from_=start, to=pipe, via=DEFAULT_VIA, **_given(stream, "step_size"))
    growing.engines[pipe] = loaded.presets[DEFAULT_VIA]
    growing.implicit[pipe] = ImplicitStage("pipe", name, asked)
    growing.keys |= {
        f"stages.{pipe}": WrittenKey(asked, below=False),
        f"stages.{pipe}.ranks": WrittenKey(f"stages.{writer}.output.pipe.ranks"),
        f"stages.{pipe}.place": WrittenKey(f"stages.{writer}.output.pipe.place"),
        f"stages.{pipe}.output": WrittenKey(f"stages.{writer}.output"),
        f"streams.{pipe}": WrittenKey(asked, below=False),
        f"streams.{pipe}.step_size": WrittenKey(f"streams.{name}.step_size"),
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
    spool, asked, readers = spool_name(name), f"streams.{name}.spool", [*stream.readers]
    growing.stages[spool] = StageSpec(component=RELAY, place=_no_core(StagePlace()))
    growing.parameters[spool] = _relay_parameters(loaded, [])
    kept = StreamSpec(from_=spool, to=spool, via=KEPT_VIA, coupling="live", **_given(stream, "step_size"))
    growing.streams[spool] = kept.model_copy(update={"to": []})
    growing.engines[spool] = loaded.presets[KEPT_VIA]
    growing.implicit[spool] = ImplicitStage("spool", name, asked, is_optional=True)
    growing.keys |= {
        f"stages.{spool}": WrittenKey(asked, below=False),
        f"streams.{spool}": WrittenKey(asked, below=False),
        f"streams.{name}.to[{len(readers)}]": WrittenKey(asked, below=False),
    }
    return stream.model_copy(update={"to": [*readers, spool]})


def _add_stream_of_tap(tap: str, wanted: Tap, name: str, loaded: Loaded, growing: _Growing) -> None:
    """The stream from the relay to one tap: as the tapped stream goes, with the tap's own queue."""
    stream, engine, asked = loaded.spec.streams[name], loaded.engines[name], f"streams.{name}.tap.{tap}"
    # By SST too where the tapped stream is a file, which the relay reads, or goes by SSC, whose writer waits for its
    # readers.
    alike = ("via", "transport", "interface", "step_size") if engine.traits.queued else ()
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
