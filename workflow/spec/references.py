"""References in the pipeline file: names of stages and ports, paths of files and programs.

Works on the tree, not on the models, so that these mistakes show together with those of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from workflow.errors import Problem
from workflow.formats.sides import OnNode
from workflow.formatting import plural
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import PipelineSpec, StreamSpec, Tap
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.user_paths import is_file, path_mistake
from workflow.spec.validation_messages import problem_at, shown
from workflow.spec.yaml_tree.node import KeyPath, Node

_VERB = {"from": "writes", "to": "reads"}


def section(root: Node, name: str) -> dict[str, Node]:
    """The entries of `stages` or `streams` that are mappings; the schema check reports the others."""
    part = root.child(name)
    entries = part.mapping() if part else {}
    return {key: node for key, node in entries.items() if isinstance(node.value, dict)}


def programs(root: Node) -> dict[KeyPath, Node]:
    """The stages, then the taps of all streams, by path; those that are mappings."""
    stages: dict[KeyPath, Node] = {("stages", name): node for name, node in section(root, "stages").items()}
    return stages | {
        ("streams", name, "tap", tap): node
        for name, stream in section(root, "streams").items()
        for tap, node in section(stream, "tap").items()
    }


def text_at(node: Node, key: str) -> str | None:
    """The text below a key; None when there is none."""
    child = node.child(key)
    return child.value if child is not None and isinstance(child.value, str) else None


def written_rule(stage: Node) -> str | None:
    """What follows when a stage fails, as far as that is written: the word itself, or that of `do`. The schema has not
    checked it yet."""
    rule = stage.child("on_failure")
    return None if rule is None else text_at(stage, "on_failure") or text_at(rule, "do")


def reference_problems(
    root: Node, components: Mapping[str, Component], added: Collection[str], base: Path
) -> Iterator[Problem]:
    """References to things that do not exist.

    Args:
        components: those of stages and taps, by the name of the stage or tap.
        added: names of stages that wf adds, which may be referred to as well.
        base: the pipeline file's folder.
    """
    by_path = programs(root)
    stages = {str(path[-1]): stage for path, stage in reversed(by_path.items())}
    for path, stage in by_path.items():
        yield from _stage_problems(root, path, stage, {*stages, *added}, base)
    # Without a stage each end of a stream would be a mistake, and is none.
    for name, stream in section(root, "streams").items() if by_path else ():
        for path, end in _ends(("streams", name), stream):
            if end.partition(".")[0] not in added:
                yield from _end_problems(root, path, end, stages, components)


def _stage_problems(root: Node, path: KeyPath, stage: Node, stages: Collection[str], base: Path) -> Iterator[Problem]:
    place = stage.child("place")
    share = text_at(place, "share") if place is not None else None
    if share is not None and share not in stages:
        yield problem_at(
            root, (*path, "place", "share"), f"there is no stage `{shortened(share)}`", _stage_hint(share, stages)
        )
    elif share is not None and share == path[-1]:
        yield problem_at(root, (*path, "place", "share"), "a stage shares nodes with another one", "remove it")
    files = stage.child("files")
    for name, file in files.mapping().items() if files is not None else ():
        at = (*path, "files", name)
        if isinstance(file.value, str) and not is_file(base / file.value):
            hint = path_mistake(file.value) or f"relative paths start at {base}"
            yield problem_at(root, at, f"there is no file {shown(file.value)}", hint)
        if mistake := path_mistake(name):
            yield problem_at(root, at, f"{shown(name)} is not a valid file name", mistake, at_key=True)
    yield from _what_no_process_takes(root, path, stage)
    yield from _configs_that_are_no_files(root, path, stage)


def _what_no_process_takes(root: Node, path: KeyPath, stage: Node) -> Iterator[Problem]:
    """Words and environment variables with which the operating system starts no program."""
    command, env = stage.child("command"), stage.child("env")
    words = command.value if command is not None and isinstance(command.value, list) else []
    if words and isinstance(words[0].value, str) and (mistake := path_mistake(words[0].value)):
        message = f"{shown(words[0].value)} is not a valid name of a program"
        yield problem_at(root, (*path, "command", 0), message, mistake)
    for index, word in enumerate(words[1:], start=1):
        if isinstance(word.value, str) and "\0" in word.value:
            hint = "remove it, or write it into a file of `files:`"
            yield problem_at(root, (*path, "command", index), "an argument of a program cannot hold a NUL byte", hint)
    for name, value in env.mapping().items() if env is not None else ():
        at = (*path, "env", name)
        if not name or "=" in name or "\0" in name:
            hint = "names are not empty and hold no `=` and no NUL byte"
            yield problem_at(root, at, "this is not a valid name of an environment variable", hint, at_key=True)
        if isinstance(value.value, str) and "\0" in value.value:
            yield problem_at(root, at, "an environment variable cannot hold a NUL byte", "remove it")


def _configs_that_are_no_files(root: Node, path: KeyPath, stage: Node) -> Iterator[Problem]:
    for side in ("writes", "reads"):
        for name, port in section(stage, side).items():
            if mistake := path_mistake(text_at(port, "config") or ""):
                message = f"{shown(text_at(port, 'config'))} is not a valid file name"
                yield problem_at(root, (*path, side, name, "config"), message, mistake)


def _ends(path: KeyPath, stream: Node) -> Iterator[tuple[KeyPath, str]]:
    for key in ("from", "to"):
        child = stream.child(key)
        if child is None:
            continue
        if isinstance(child.value, str):
            yield (*path, key), child.value
        for index, item in enumerate(child.value if isinstance(child.value, list) else []):
            if isinstance(item.value, str):
                yield (*path, key, index), item.value


def _end_problems(
    root: Node, path: KeyPath, end: str, stages: Mapping[str, Node], components: Mapping[str, Component]
) -> Iterator[Problem]:
    stage, _, port = end.partition(".")
    side: Literal["from", "to"] = "from" if "from" in path[2:3] else "to"
    if stage not in stages:
        yield problem_at(root, path, f"there is no stage `{shortened(stage)}`", _stage_hint(stage, stages))
        return
    component = components.get(stage)
    here, other = ports_of(stages[stage], component, side)
    if component is not None and not here:
        hint = f"it {_VERB['to' if side == 'from' else 'from']} {listing(other)}: are `from` and `to` swapped?"
        message = f"stage `{stage}` (component {component.component}) {_VERB[side]} nothing"
        yield problem_at(root, path, message, hint if other else f"component {component.component} has no ports")
    elif port and here and port not in here:
        turned = f"it {_VERB['to' if side == 'from' else 'from']} `{port}`; " if port in other else ""
        hint = turned + (did_you_mean(port, here) or f"it {_VERB[side]} {listing(here)}")
        yield problem_at(root, path, f"stage `{stage}` {_VERB[side]} no `{shortened(port)}`", hint)


def ports_of(stage: Node, component: Component | None, side: Literal["from", "to"]) -> tuple[set[str], set[str]]:
    """Names of the ports on this side and on the other one."""
    if component is not None:
        writes, reads = set(component.writes), set(component.reads)
    else:
        writes, reads = (set(part.mapping() if (part := stage.child(key)) else {}) for key in ("writes", "reads"))
    return (writes, reads) if side == "from" else (reads, writes)


def _stage_hint(name: str, stages: Collection[str]) -> str:
    return did_you_mean(name, stages) or f"stages: {listing(stages)}"


# Which stages `async: pipe` and `tap:` ask for, and what is wrong with their names.
#
# The plan makes these stages (`workflow.plan.topology.implicit_stages`). Their names are checked here, with everything
# else that the user wrote: a tap has the name of its key, and the names of pipes and relays follow from their stream's.

EngineOf = Callable[[str], Engine | None]
"""Stream → its engine; None where its `via` is wrong."""
RELAY = "relay"  # the component of pipes and relays
LONGEST_NAME = 63


def pipe_name(stream: str) -> str:
    """The name of the pipe that writes the file of a stream, and of the stream that it reads."""
    return f"{stream}-pipe"


def spool_name(stream: str) -> str:
    """The name of the stage that keeps the steps of a stream, and of the stream that it writes."""
    return f"{stream}-spool"


def has_spool(stream: StreamSpec, engine: Engine | None) -> bool:
    """Whether a stage of wf's keeps the steps of a stream: what goes through files is kept already."""
    return stream.keep is not None and stream.keeps_file and engine is not None and engine.traits.in_memory


def spool_steps(stream: StreamSpec) -> int | None:
    """The least number of steps that the spool of a stream keeps; None: all steps."""
    return None if stream.keep is None or stream.keep.steps == "all" else stream.keep.steps


def spool_place(stream: StreamSpec) -> OnNode:
    """Where the file of a stream's spool is."""
    return "" if stream.keep is None else stream.keep.where


def spooled_streams(spec: PipelineSpec, engine_of: EngineOf) -> list[str]:
    """The streams that have a spool."""
    return [name for name, stream in spec.streams.items() if has_spool(stream, engine_of(name))]


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
    """The pipes, relays and spools of a pipeline by name, each with the path of the key that asks for it."""
    pipes: dict[str, KeyPath] = {
        pipe_name(stream): ("stages", writer, "output", "async")
        for stream, writer in piped_streams(spec, engine_of).items()
    }
    relays: dict[str, KeyPath] = {
        relay_name(stream): ("streams", stream, "tap")
        for stream in spec.streams
        if relayed_taps(spec, stream, engine_of)
    }
    spools: dict[str, KeyPath] = {
        spool_name(stream): ("streams", stream, "keep") for stream in spooled_streams(spec, engine_of)
    }
    return pipes | relays | spools


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
    for name, stream in spec.streams.items():
        least, limit = spool_steps(stream), stream.queue.limit
        if least is not None and least < limit and has_spool(stream, engine_of(name)):
            message = f"the queue of {name} may hold {plural(limit, 'step')}, more than are to be kept"
            yield problem_at(root, ("streams", name, "keep", "steps"), message, f"keep at least {limit} steps")
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
        elif len(name) > LONGEST_NAME:
            message = f"wf would add a stage `{name}`, a name of {len(name)} letters"
            yield problem_at(root, at, message, f"shorten the name of the stream: {LONGEST_NAME} letters at most")
        taken.setdefault(name, "stage")
