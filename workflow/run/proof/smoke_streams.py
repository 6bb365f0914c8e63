"""Smoke streams: which streams are tested, how their ends start on the nodes of the stages, and the result. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.formats.json_lines import to_record
from workflow.formats.sides import Side
from workflow.launch.launch_request import LaunchRequest
from workflow.plan.launch_requests import GrantedNodes, stage_request
from workflow.plan.plan_model import Plan, StagePlan, StreamPlan
from workflow.run.proof.proof_model import StreamTried
from workflow.sst_transports import Transport, transport_of_plane

# Not imported: only programs of stages import their package.
PROGRAM = Path(__file__).parents[2] / "stage" / "adios" / "sst_end.py"
STEPS = 3
# Planned for many steps and slow readers; three steps must not be dropped.
_OWN_PARAMETERS = {"QueueFullPolicy": "Block"}


@dataclass(frozen=True)
class SmokeEnd:
    """One end: `file` is what its program reads, with this text."""

    stage: str
    request: LaunchRequest
    file: Path
    text: str


@dataclass(frozen=True)
class SmokeStream:
    """A stream that is tried: its writer, then its readers. `transport` is SST's name of how data moves."""

    stream: str
    transport: str
    ends: tuple[SmokeEnd, ...]


def plan_smoke(
    plan: Plan, folder: Path, received: GrantedNodes, python: str, patience_s: float
) -> tuple[list[SmokeStream], dict[str, str]]:
    """(the streams to try, stream → why it is not tried) of all live streams. `python`: for programs of users' own."""
    tried: list[SmokeStream] = []
    untried: dict[str, str] = {}
    for stream in plan.streams:
        if stream.coupling != "live":
            continue
        stages = [plan.stage(name) for name in (stream.writer, *stream.readers)]
        if reason := _why_not(stream, stages):
            untried[stream.name] = reason
            continue
        ends = [
            _end(plan, stream, stage, number, folder, received, python, patience_s)
            for number, stage in enumerate(stages)
        ]
        tried.append(SmokeStream(stream.name, stream.transport or "its default transport", tuple(ends)))
    return tried, untried


def _why_not(stream: StreamPlan, stages: Sequence[StagePlan]) -> str:
    if not stream.traits.in_memory:
        return f"{stream.engine} moves its data through files"
    if stream.closes_circle:
        return "it closes a circle, in which the programs see to the order of their opens"
    if stream.transport == "mpi":
        return "transport mpi needs programs of MPI"
    if len({stage.placement.nodes[0][0] for stage in stages}) == 1:
        return "its ends begin on the same node"
    return ""


def _end(
    plan: Plan,
    stream: StreamPlan,
    stage: StagePlan,
    number: int,
    folder: Path,
    received: GrantedNodes,
    python: str,
    patience_s: float,
) -> SmokeEnd:
    side: Side = "read" if number else "write"
    end = stage.end(stream.name, side)
    file = folder / "ends" / f"{stream.name}.{stage.name}.json"
    text = json.dumps(
        {
            "side": side,
            "path": str(folder / "streams" / stream.name),
            "parameters": end.parameters | (_OWN_PARAMETERS if side == "write" else {}),
            "number": number,
            "steps": STEPS,
            "patience_s": patience_s,
        }
    )
    interpreter = stage.program[0] if stage.component is not None else python
    program = [interpreter, str(PROGRAM), "smoke", str(file)]
    request = stage_request(stage, plan, str(folder / "lines" / f"{stream.name}.{stage.name}"), received)
    return SmokeEnd(stage.name, _one_rank(request, program), file, text)


def _one_rank(request: LaunchRequest, program: Sequence[str]) -> LaunchRequest:
    """The same line for the first rank alone."""
    layout = request.layout
    first = layout._replace(
        nodes=1, ranks_per_node=1, cores=layout.cores[:1], gpus=layout.gpus[:1], nics=layout.nics[:1]
    )
    env = {key: value for key, value in request.env.items() if key != "WF_STAGE"} | {"SstVerbose": "2"}
    return dataclasses.replace(
        request, name=f"smoke {request.name}", program=program, ranks=1, layout=first, env=env, cwd="/"
    )


# What ADIOS2's log has in the line that says why nothing moves; other lines are settings and summaries.
_TROUBLE = re.compile(
    r"error|failed to|failure|time[d ]*out|refused|unreachable|no route|not found|no handler|fault|abort", re.I
)
# Settings; and what launchers say at the deadline, when they are ended.
_NO_CAUSE = re.compile(r"^(Param -|srun|slurmstepd|\[?mpiexec|\[?proxy|prte|flux|=)", re.I)
_LONGEST = 300
_SELECTED = re.compile(r'Selecting DataPlane "([^"]+)"')


@dataclass(frozen=True)
class SmokeOutput:
    """What one end has printed: (seconds, line) of its output, and its log."""

    host: str
    lines: Sequence[tuple[float, bytes]]
    log: str
    ended: str  # `exit code 1`; empty where it was killed at the deadline

    def records(self) -> list[tuple[float, dict[str, Any]]]:
        """Its lines as records; those of launchers are left out."""
        return [(t, record) for t, line in self.lines if (record := to_record(line)) is not None]

    def has(self, key: str) -> bool:
        """Whether it has printed a record with this key."""
        return any(key in record for _, record in self.records())


def untested(ends: Sequence[SmokeOutput]) -> str:
    """Why the stream could not be tried; empty where it was."""
    said = [str(record["untested"]) for end in ends for _, record in end.records() if "untested" in record]
    return said[0] if said else ""


def judge_smoke(stream: str, transport: str, ends: Sequence[SmokeOutput], deadline_s: float) -> StreamTried:
    """Whether all steps have crossed to all readers. `ends`: the writer first."""
    writer, *readers = ends
    hosts = tuple(reader.host for reader in readers)
    steps = [[t for t, record in reader.records() if "step" in record] for reader in readers]
    if all(reader.has("done") for reader in readers):
        seconds = round(max((times[-1] for times in steps if times), default=0.0), 3)
        return StreamTried(stream, transport, writer.host, hosts, seconds, taken=_taken(writer))
    bad = next(index for index, reader in enumerate(readers) if not reader.has("done"))
    reader, came = readers[bad], len(steps[bad])
    crossed = "no step" if came == 0 else f"only {came} of {STEPS} steps"
    text = (
        f"stream {stream}: {crossed} crossed from {writer.host} to {reader.host} in {deadline_s:.0f} s by {transport}"
    )
    cause = _cause(writer, reader)
    return StreamTried(
        stream, transport, writer.host, hosts, None, text + (f": {cause}" if cause else ""), _taken(writer)
    )


def other_transport(tried: StreamTried, planned: Transport | None) -> str:
    """What is wrong, where the steps crossed by another transport than the planned one."""
    if tried.seconds is None or planned is None or tried.taken in ("", planned):
        return ""
    return f"stream {tried.stream}: transport {planned} is planned, but ADIOS2 took {tried.taken} on {tried.writer}"


def _taken(writer: SmokeOutput) -> str:
    """The transport that the writer's log names: the writer decides, the readers follow it."""
    planes = _SELECTED.findall(writer.log)
    return transport_of_plane(planes[-1]) if planes else ""


def _cause(writer: SmokeOutput, reader: SmokeOutput) -> str:
    """The line that says most: of the logs, of the programs' own errors, how a program ended."""
    for end in (reader, writer):
        lines = [line.strip() for line in end.log.splitlines()]
        if found := [line for line in lines if _TROUBLE.search(line) and not _NO_CAUSE.match(line)]:
            return found[-1][:_LONGEST]
    for end in (writer, reader):
        if found := [str(record["error"]) for _, record in end.records() if "error" in record]:
            return found[-1][:_LONGEST]
    for name, end in (("writer", writer), ("reader", reader)):
        if not end.has("opened"):
            return f"its {name} could not open it" + (f" ({end.ended})" if end.ended else "")
    announced = [record["announced"] for _, record in reader.records() if "announced" in record]
    if announced:
        return f"step {announced[-1]} was announced to the reader, its data did not come"
    return "its reader was told of no step"
