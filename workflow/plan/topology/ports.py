"""What each stage can read and write, by the ports of its component or program, and the streams that connect them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from workflow.formats.sides import Side
from workflow.plan.plan_notes import Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.spec.models.component import Port, PortVariable
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import ProgramPort, StreamSpec
from workflow.spec.models.stage_policies import Dialect
from workflow.spec.suggest import did_you_mean, listing

KEY_OF_SIDE: dict[Side, str] = {"read": "reads", "write": "writes"}


class StagePort(NamedTuple):
    """One place of a stage where a stream can be joined.

    `variables` is None where nothing is known of the data: a port that takes anything, or a program that
    declares nothing. `implied` ports were not declared: they are named after their stream. `shares`: each rank
    reads its share by the stream's strategy, `once` by one that gives every element to one rank. `passes`: the
    port of which some steps are written here. `path`: the name that the program opens, where that is fixed.
    `named_at`: variable → the key of the file that names it, where a parameter does.
    """

    stage: str
    side: Side
    name: str
    variables: dict[str, PortVariable] | None
    io: str
    config: str | None = None
    dialect: Dialect | None = None
    optional: bool = False
    many: bool = False
    does_without: bool = False
    implied: bool = False
    shares: Literal["once", "any"] | None = None
    passes: str = ""
    path: str = ""
    named_at: Mapping[str, str] = MappingProxyType({})

    @property
    def end(self) -> str:
        """The name for messages and for `from:`/`to:`."""
        return f"{self.stage}.{self.name}"


@dataclass
class StagePorts:
    """All ports of a stage, by name."""

    read: dict[str, StagePort] = field(default_factory=dict)
    write: dict[str, StagePort] = field(default_factory=dict)

    def on(self, side: Side) -> dict[str, StagePort]:
        """The ports of one side."""
        return self.read if side == "read" else self.write


def stage_ports(stage: DeclaredStage, problems: Problems) -> StagePorts:
    """The ports of one stage. Variables named `$parameter` get their names."""
    return StagePorts(
        read=_ports(stage, "read", stage.spec.reads, problems),
        write=_ports(stage, "write", stage.spec.writes, problems),
    )


def _ports(
    stage: DeclaredStage, side: Side, of_program: Mapping[str, ProgramPort], problems: Problems
) -> dict[str, StagePort]:
    """The ports of one side; `of_program` are those of a `command:`."""
    if stage.component is None:
        return {name: _program_port(stage.name, side, name, port) for name, port in of_program.items()}
    declared = stage.component.reads if side == "read" else stage.component.writes
    return {
        name: StagePort(
            stage.name,
            side,
            name,
            _component_variables(stage.name, port, stage.parameters, problems),
            io=name,
            optional=port.optional,
            many=port.many,
            does_without=port.does_without,
            shares=port.shares,
            passes=port.passes,
            named_at=_named_at(stage, port),
        )
        for name, port in declared.items()
    }


def _program_port(stage: str, side: Side, name: str, port: ProgramPort) -> StagePort:
    variables = {key: PortVariable(**dict(value)) for key, value in port.variables.items()}
    config = port.config
    if port.spoken == "env":
        config = None
    elif port.spoken == "picongpu" and config is None:
        config = f"openPMD-{name}.json"
    return StagePort(
        stage, side, name, variables or None, io=port.io or name, config=config, dialect=port.spoken,
        shares=None if port.is_told else "any", path=port.path or "",
    )  # fmt: skip


def _component_variables(
    stage: str, port: Port, parameters: Mapping[str, Any], problems: Problems
) -> dict[str, PortVariable] | None:
    """Variables with `$parameter` names and sizes resolved; None for a port that takes anything."""
    if port.any and not port.variables:
        return None
    resolved: dict[str, PortVariable] = {}
    for written, variable in port.variables.items():
        if variable.shape is not None:
            shape = [_size(entry, parameters) for entry in variable.shape]
            variable = variable.model_copy(update={"shape": shape})
        if not written.startswith("$"):
            resolved[written] = variable
        elif written[1:] not in parameters:
            problems.add(
                f"stages.{stage}.component",
                f"its component.yaml names a variable after `{written}`, which is none of its parameters",
                "this is a mistake of the component",
            )
        else:
            resolved.update(dict.fromkeys(_names(parameters[written[1:]]), variable))
    return resolved


def _named_at(stage: DeclaredStage, port: Port) -> dict[str, str]:
    """Variable → the parameter in the file that names it."""
    given = [name[1:] for name in port.variables if name.startswith("$") and name[1:] in stage.spec.with_]
    return {
        variable: f"stages.{stage.name}.with.{name}"
        for name in given
        for variable in _names(stage.parameters.get(name))
    }


def _names(value: Any) -> list[str]:
    """The variable names that a parameter's value stands for: one, several or none."""
    return [str(item) for item in value] if isinstance(value, list) else [str(value)] if value not in (None, "") else []


def _size(entry: int | str, parameters: Mapping[str, Any]) -> int | str:
    """A `$parameter` size as its number; other sizes unchanged."""
    if isinstance(entry, str) and entry.startswith("$"):
        value = parameters.get(entry[1:])
        return value if isinstance(value, int) and not isinstance(value, bool) else entry[1:]
    return entry


# Joins streams to the ports of stages: which port writes, which ports read.


class JoinedStream(NamedTuple):
    """A stream with its engine and its ports.

    `writer` is None and `readers` is short where an end could not be found. `into_pipe`: its reader is the stage that
    `async: pipe` adds. `every`: one of its steps stands for so many of the stream that it is a tap of; else 1.
    `lends_transport`: its `transport` and `interface` hold for a stream that wf adds, whatever its own engine is.
    """

    name: str
    spec: StreamSpec
    engine: Engine
    writer: StagePort | None
    readers: list[StagePort]
    into_pipe: bool = False
    lends_transport: bool = False
    every: int = 1

    @property
    def ports(self) -> list[StagePort]:
        """All ports found, the writer first."""
        return [*([self.writer] if self.writer else []), *self.readers]


def streams_by_stage(streams: Iterable[JoinedStream]) -> dict[str, list[JoinedStream]]:
    """Stage → the streams that it reads or writes. An ensemble has thousands."""
    found: dict[str, list[JoinedStream]] = {}
    for stream in streams:
        for name in dict.fromkeys(port.stage for port in stream.ports):
            found.setdefault(name, []).append(stream)
    return found


def end_keys(name: str, stream: StreamSpec) -> Iterator[tuple[str, str, Side]]:
    """(key in the file, end as written, side) of every end of a stream."""
    yield f"streams.{name}.from", stream.from_, "write"
    for index, end in enumerate(stream.readers):
        yield (f"streams.{name}.to[{index}]" if isinstance(stream.to, list) else f"streams.{name}.to"), end, "read"


def join_streams(
    streams: Mapping[str, StreamSpec],
    engines: Mapping[str, Engine],
    stages: Mapping[str, DeclaredStage],
    ports: Mapping[str, StagePorts],
    mentioned: Mapping[str, set[str]],
    problems: Problems,
) -> dict[str, JoinedStream]:
    """All streams with their ports; that the stages exist was checked when the file was read.

    `mentioned` names the streams that each stage's command, env or files use in a placeholder: a program joins these,
    and files that are only handed over, without declaring an io.
    """
    joined: dict[str, JoinedStream] = {}
    unclear: set[Side] = set()
    for name, stream in streams.items():
        writer: StagePort | None = None
        readers: list[StagePort] = []
        handed_over = not engines[name].traits.has_steps
        for key, end, side in end_keys(name, stream):
            stage, _, wanted = end.partition(".")
            port = _find(name, wanted, ports[stage].on(side))
            if port is None and stages[stage].spec.command is not None and not ports[stage].on(side):
                port = StagePort(stage, side, wanted or name, None, io=wanted or name, implied=True)
                if not handed_over and name not in mentioned[stage]:
                    _undeclared(name, key, port, problems)
            if port is None:
                unclear.add(side)
                _unclear(name, key, end, side, ports[stage], problems)
            elif side == "write":
                writer = port
            elif any(other.stage == stage for other in readers):
                problems.add(key, f"stage {stage} reads this stream twice", "name every reading stage once")
            else:
                readers.append(port)
        joined[name] = JoinedStream(name, stream, engines[name], writer, readers)
    _check_ports(ports, joined, unclear, problems)
    return joined


def _find(stream: str, wanted: str, here: Mapping[str, StagePort]) -> StagePort | None:
    """The port asked for, else the one named like the stream, else the only one."""
    if wanted:
        return here.get(wanted)
    return here.get(stream) or (next(iter(here.values())) if len(here) == 1 else None)


def _undeclared(name: str, key: str, port: StagePort, problems: Problems) -> None:
    problems.add(
        key,
        f"program {port.stage} declares nothing that it {port.side}s",
        f"add `{KEY_OF_SIDE[port.side]}: {{{port.name}: {{}}}}` to the stage if it uses `workflow.stage`, "
        f"`{{{port.name}: {{io: NAME, config: adios2.xml}}}}` if it reads that file, or use "
        f"`${{{{ streams.{name}.path }}}}` in its command",
    )


def _unclear(name: str, key: str, end: str, side: Side, ports: StagePorts, problems: Problems) -> None:
    stage, _, wanted = end.partition(".")
    here = ports.on(side)
    if wanted or not here:
        message = f"stage {stage} {side}s no `{wanted or name}`"
        hint = did_you_mean(wanted, here) or f"{stage} {side}s {listing(here)}"
    else:
        message = f"stage {stage} {side}s {listing(here)}: which one is this stream?"
        hint = "write " + " or ".join(f"`{port.end}`" for port in here.values())
    problems.add(key, message, hint)


def _check_ports(
    ports: Mapping[str, StagePorts], joined: Mapping[str, JoinedStream], unclear: set[Side], problems: Problems
) -> None:
    """Every port that must be joined is, and none twice.

    On an `unclear` side an end was not understood, which may well be the one that is missing.
    """
    used: dict[tuple[str, Side, str], str] = {}
    for name, stream in joined.items():
        for port in stream.ports:
            place = (port.stage, port.side, port.name)
            first = used.setdefault(place, name)
            if first != name and not port.many:
                _twice(port, first, name, problems)
    for stage, here in ports.items():
        for port in [*here.read.values(), *here.write.values()]:
            if not port.optional and port.side not in unclear and (stage, port.side, port.name) not in used:
                _unjoined(port, ports, problems)


def _twice(port: StagePort, first: str, second: str, problems: Problems) -> None:
    if port.side == "write":
        problems.add(
            f"streams.{second}.from",
            f"{port.end} already writes stream {first}",
            f"for several readers give one stream several: `{first}: {{from: {port.stage}, to: [A, B]}}`",
        )
    else:
        problems.add(
            f"streams.{second}.to",
            f"{port.end} already reads stream {first}: two writers for one port",
            "use one port, or one stage, per stream",
        )


def _unjoined(port: StagePort, ports: Mapping[str, StagePorts], problems: Problems) -> None:
    if port.side == "read":
        what = f"nothing writes what {port.stage} reads at its port `{port.name}`"
        near = [name for name, here in ports.items() if name != port.stage and port.name in here.write]
        hint = f"add `{port.name}: {{from: {near[0] if near else 'STAGE'}, to: {port.stage}}}` to streams"
    else:
        what = f"nothing reads what {port.stage} writes at its port `{port.name}`"
        near = [name for name, here in ports.items() if name != port.stage and port.name in here.read]
        target = near[0] if near else "STAGE"
        hint = f"add `{port.name}: {{from: {port.stage}, to: {target}}}` to streams (component `null` throws data away)"
    problems.add(f"stages.{port.stage}", what, hint)


# What each stage is: simulation, analysis or sink.

StageKind = Literal["simulation", "analysis", "sink"]


def stage_kinds(stages: Mapping[str, DeclaredStage], streams: Collection[JoinedStream]) -> dict[str, StageKind]:
    """By stage: a component declares its kind; that of a command follows from the streams it reads and writes."""
    reading = {port.stage for stream in streams for port in stream.readers}
    writing = {stream.writer.stage for stream in streams if stream.writer is not None}
    return {name: _kind(stage, name in reading, name in writing) for name, stage in stages.items()}


def _kind(stage: DeclaredStage, reads: bool, writes: bool) -> StageKind:
    if stage.component is not None:
        return stage.component.kind
    if not reads:
        return "simulation"
    return "analysis" if writes else "sink"
