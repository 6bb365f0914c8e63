"""Which stages `async: pipe` and `tap:` ask for, and what is wrong with their names.

The plan makes these stages (`workflow.plan.topology.implicit_stages`). Their names are checked here, with everything
else that the user wrote: a tap has the name of its key, and the names of pipes and relays follow from their stream's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workflow.errors import Problem
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import PipelineSpec, Tap
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node

EngineOf = Callable[[str], Engine | None]
"""Stream → its engine; None where its `via` is wrong."""
RELAY = "relay"  # the component of pipes and relays
_LONGEST_NAME = 63


def pipe_name(stream: str) -> str:
    """The name of the pipe that writes the file of a stream, and of the stream that it reads."""
    return f"{stream}-pipe"


def relay_name(stream: str) -> str:
    """The name of the relay between a stream and its taps."""
    return f"{stream}-relay"


def piped_streams(spec: PipelineSpec, engine_of: EngineOf) -> dict[str, str]:
    """Stream → its writer, of the streams whose file a pipe writes: streams from memory to memory need none."""
    asked = {name: (writer, engine_of(name)) for name, writer in _asks_for_pipe(spec).items()}
    return {
        name: writer
        for name, (writer, engine) in asked.items()
        if engine is not None and not engine.traits.in_memory and engine.traits.has_steps
    }


def relayed_taps(spec: PipelineSpec, stream: str, engine_of: EngineOf) -> dict[str, Tap]:
    """The taps of a stream that read through a relay; the others are readers of the stream itself."""
    return {name: tap for name, tap in spec.streams[stream].tap.items() if not _reads_directly(tap, engine_of(stream))}


def _reads_directly(tap: Tap, engine: Engine | None) -> bool:
    """Whether a tap takes every step, and whoever writes the stream may wait for it."""
    on_file = engine is not None and not engine.traits.in_memory
    return tap.every == 1 and not tap.latest and (on_file or tap.queue.when_full == "block")


def added_by_wf(spec: PipelineSpec, engine_of: EngineOf) -> dict[str, KeyPath]:
    """The pipes and relays of a pipeline by name, each with the path of the key that asks for it."""
    pipes: dict[str, KeyPath] = {
        pipe_name(stream): ("stages", writer, "output", "async")
        for stream, writer in piped_streams(spec, engine_of).items()
    }
    relays: dict[str, KeyPath] = {
        relay_name(stream): ("streams", stream, "tap")
        for stream in spec.streams
        if relayed_taps(spec, stream, engine_of)
    }
    return pipes | relays


def _asks_for_pipe(spec: PipelineSpec) -> dict[str, str]:
    """Stream → its writer, of all streams whose writer has `async: pipe`."""
    writers = {name: stream.from_.partition(".")[0] for name, stream in spec.streams.items()}
    return {
        name: writer
        for name, writer in writers.items()
        if writer in spec.stages and spec.stages[writer].output.async_ == "pipe"
    }


def implicit_stage_problems(root: Node, spec: PipelineSpec, engine_of: EngineOf) -> Iterator[Problem]:
    """Pipes that cannot be, and names of pipes, taps and relays that are taken or too long."""
    for name, writer in _asks_for_pipe(spec).items():
        if (engine := engine_of(name)) is not None and not engine.traits.has_steps:
            message = f"a pipe takes steps, but stream {name} only hands over a file"
            hint = "use `via: bp5`, or remove `async: pipe`"
            yield problem_at(root, ("stages", writer, "output", "async"), message, hint)
    taken = dict.fromkeys(spec.streams, "stream") | dict.fromkeys(spec.stages, "stage")
    for name, stream in spec.streams.items():
        for tap in stream.tap:
            if tap in taken:
                message = f"there is already a {taken[tap]} `{tap}`"
                hint = "a tap becomes a stage: give it another name"
                yield problem_at(root, ("streams", name, "tap", tap), message, hint, at_key=True)
            taken.setdefault(tap, "stage")
    for name, at in added_by_wf(spec, engine_of).items():
        if name in taken:
            message = f"there is already a {taken[name]} `{name}`, and wf would add a {taken[name]} of that name"
            yield problem_at(root, at, message, f"rename the {taken[name]} `{name}`")
        elif len(name) > _LONGEST_NAME:
            message = f"wf would add a stage `{name}`, a name of {len(name)} letters"
            yield problem_at(root, at, message, f"shorten the name of the stream: {_LONGEST_NAME} letters at most")
        taken.setdefault(name, "stage")
