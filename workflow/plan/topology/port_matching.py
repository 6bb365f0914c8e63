"""Joins streams to the ports of stages: which port writes, which ports read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workflow.formats.sides import Side
from workflow.plan.problems import Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import KEY_OF_SIDE, StagePort, StagePorts
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import StreamSpec
from workflow.spec.suggest import did_you_mean, listing


@dataclass(frozen=True)
class JoinedStream:
    """A stream with its engine and its ports.

    `writer` is None and `readers` is short where an end could not be found. `into_pipe`: its reader is the stage that
    `async: pipe` adds. `every`: one of its steps stands for so many of the stream that it is a tap of; else 1.
    """

    name: str
    spec: StreamSpec
    engine: Engine
    writer: StagePort | None
    readers: list[StagePort] = field(default_factory=list)
    into_pipe: bool = False
    every: int = 1

    @property
    def ports(self) -> list[StagePort]:
        """All ports found, the writer first."""
        return [*([self.writer] if self.writer else []), *self.readers]


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
        f"add `{KEY_OF_SIDE[port.side]}: {{{port.name}: {{io: NAME, config: adios2.xml}}}}` to the stage, "
        f"or use `${{{{ streams.{name}.path }}}}` in its command",
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
