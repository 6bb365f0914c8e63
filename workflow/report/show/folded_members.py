"""Ensembles as one row each: the members of a stage, and the streams that they write or read alike. Pure.

Of what the members have in a row, numbers that add up are sums, and all others medians; `spread_lines` names the worst.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from workflow.formatting import VARIES, command_text, duration

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan, StagePlan
    from workflow.report.report_model import ReaderPart, Report, StagePart, StreamPart

Folded = TypeVar("Folded")
# Of a stage, a stream or a reader.
_SUMS = ("ranks", "steps_in", "steps_out", "bytes_in", "bytes_out", "steps", "bytes", "throughput", "dropped", "lost")
_MEDIANS = (
    "wall_s", "open_s", "compute_s", "device_s", "io_s", "wait_s", "other_s", "cpu_s", "ready_s",
    "transfer_rate", "idle",
)  # fmt: skip
# What the name of a stream has of its member alone.
_OF_ONE = re.compile(r"-[^-]*$")


class Folding:
    """The name of each stage and stream in a table: its own, or that of all which are alike, `16 × sim`."""

    def __init__(self, ensembles: Mapping[str, str], streams: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        """`ensembles`: stage → the ensemble that it is a member of; `streams`: (name, writer, readers)."""
        counts = Counter(ensembles.values())
        self.stages = {name: f"{counts[of]} × {of}" for name, of in ensembles.items() if counts[of] > 1}
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, writer, readers in streams:
            if {writer, *readers} & self.stages.keys():
                ends = [self.stages.get(each, each) for each in (writer, *readers)]
                alike.setdefault((_OF_ONE.sub("", name), *dict.fromkeys(ends)), []).append(name)
        self.streams = {
            name: f"{len(names)} × {key[0]}" for key, names in alike.items() if len(names) > 1 for name in names
        }

    @classmethod
    def of_plan(cls, plan: Plan) -> Folding:
        """By the members of a plan."""
        ensembles = {stage.name: stage.member.ensemble for stage in plan.stages if stage.member is not None}
        return cls(ensembles, ((each.name, each.writer, each.readers) for each in plan.streams))

    def stage(self, name: str) -> str:
        """The name of a stage in a table."""
        return self.stages.get(name, name)

    def ends(self, names: Iterable[str]) -> list[str]:
        """The names of stages in a table, each once."""
        return list(dict.fromkeys(map(self.stage, names)))


def groups(parts: Iterable[Folded], name_of: Callable[[Folded], str]) -> dict[str, list[Folded]]:
    """Name in the table → what it stands for, in order."""
    found: dict[str, list[Folded]] = {}
    for part in parts:
        found.setdefault(name_of(part), []).append(part)
    return found


def fold_plan(plan: Plan) -> Plan:
    """The plan as tables and drawings show it; the same where it has no ensemble."""
    folding = Folding.of_plan(plan)
    if not folding.stages:
        return plan
    stages = [
        _fold_plans(name, each, folding)
        for name, each in groups(plan.stages, lambda stage: folding.stage(stage.name)).items()
    ]
    streams = [
        each[0].model_copy(update={
            "name": name, "writer": folding.stage(each[0].writer), "readers": folding.ends(each[0].readers),
            "on_disk": each[0].on_disk if len(each) == 1 else [],
            "spool": folding.streams.get(each[0].spool, each[0].spool),
        })
        for name, each in groups(plan.streams, lambda stream: folding.streams.get(stream.name, stream.name)).items()
    ]  # fmt: skip
    return plan.model_copy(update={"stages": stages, "streams": streams})


def _fold_plans(name: str, stages: Sequence[StagePlan], folding: Folding) -> StagePlan:
    first = stages[0]
    ends = [
        end.model_copy(update={"stream": folding.streams.get(end.stream, end.stream)}) for stage in stages
        for end in stage.ends
    ]  # fmt: skip
    own: dict[str, object] = {
        "starts_after": folding.ends(first.starts_after),
        "ends": list({(end.stream, end.side): end for end in ends}.values()),
        "restart": first.restart and first.restart.model_copy(update={
            "stages": folding.ends(first.restart.stages),
            "sources": {folding.stage(each): how for each, how in first.restart.sources.items()},
        }),
    }  # fmt: skip
    if len(stages) == 1:
        return first.model_copy(update=own)
    if any(stage.starts_after != first.starts_after for stage in stages):
        own["starts_after"] = ["others of them"]
    nodes = sorted({nodes for stage in stages for nodes in stage.placement.nodes})
    cores = sorted({core for stage in stages for core in stage.placement.cores})
    place = first.placement.model_copy(update={"nodes": nodes, "cores": cores})
    own |= {"name": name, "ranks": sum(stage.ranks for stage in stages), "placement": place}
    return first.model_copy(update={**own, "program": _command_of([stage.program for stage in stages])})


def _command_of(commands: Iterable[Sequence[str]]) -> list[str]:
    """The command of all members: the words that they have in common, and `…` for each of the others."""
    return [words[0] if len({*words}) == 1 else VARIES for words in zip_longest(*commands)]


def fold_report(report: Report) -> Report:
    """The report as tables show it; the same where its run had no ensemble."""
    folding = _folding_of(report)
    if not folding.stages:
        return report
    stages = [
        each[0] if len(each) == 1 else _fold_stages(name, each)
        for name, each in groups(report.stages, lambda stage: folding.stage(stage.name)).items()
    ]
    streams = [
        _fold_streams(name, each, folding)
        for name, each in groups(report.streams, lambda stream: folding.streams.get(stream.name, stream.name)).items()
    ]
    return report.model_copy(update={"stages": stages, "streams": streams})


def _folding_of(report: Report) -> Folding:
    ensembles = {each.name: each.ensemble for each in report.stages if each.ensemble}
    streams = ((each.name, each.writer, [reader.stage for reader in each.readers]) for each in report.streams)
    return Folding(ensembles, streams)


def _fold_stages(name: str, stages: Sequence[StagePart]) -> StagePart:
    codes = {(stage.exit_code, stage.signal) for stage in stages}
    worst = max(stages, key=lambda stage: (stage.signal is not None, stage.exit_code or 0))
    ends = {"exit_code": worst.exit_code, "signal": worst.signal} if len(codes) > 1 else {}
    return stages[0].model_copy(
        update={
            "name": name,
            "program": command_text(_command_of([shlex.split(stage.program) for stage in stages])),
            "values": {},
            "state": counts_text(stage.state for stage in stages),
            "pid": None,
            **ends,
            **_numbers(stages),
        }
    )


def counts_text(states: Iterable[str]) -> str:
    """`14 running, 2 succeeded`; the word alone where all are alike."""
    counts = Counter(states)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{count} {state}" for state, count in counts.items())


def _fold_streams(name: str, streams: Sequence[StreamPart], folding: Folding) -> StreamPart:
    named = [groups(stream.readers, lambda reader: folding.stage(reader.stage)) for stream in streams]
    readers = [
        _fold_readers(reader, [part for each in named for part in each.get(reader, ())])
        for reader in dict.fromkeys(reader for each in named for reader in each)
    ]
    own = {"name": name, "writer": folding.stage(streams[0].writer), "readers": readers}
    if len(streams) == 1:
        return streams[0].model_copy(update=own)
    limits = {stream.limited_by for stream in streams}
    limit = folding.stage(next(iter(limits))) if len(limits) == 1 else ""
    unknown = {stream.limit_unknown for stream in streams}
    return streams[0].model_copy(update={
        **own, **_numbers(streams), "limited_by": limit,
        "limit_unknown": unknown.pop() if len(unknown) == 1 else _why_unknown(streams),
    })  # fmt: skip


def _why_unknown(streams: Sequence[StreamPart]) -> str:
    """Of several streams with different reasons; "" where it is known of all."""
    unknown = [stream for stream in streams if not stream.limited_by and stream.limit_unknown]
    if not unknown:
        return ""
    known = len(streams) - len(unknown)
    shown = f"only {known} of the {len(streams)} show it" if known else f"none of the {len(streams)} shows it"
    return f"{shown}; of {unknown[0].name}: {unknown[0].limit_unknown}"


def _fold_readers(name: str, readers: Sequence[ReaderPart]) -> ReaderPart:
    return readers[0].model_copy(update={"stage": name, **(_numbers(readers) if len(readers) > 1 else {})})


def _numbers(parts: Sequence[StagePart] | Sequence[StreamPart] | Sequence[ReaderPart]) -> dict[str, float | None]:
    """The numbers of all together, of the fields that they have; None where none of them is known."""
    found: dict[str, float | None] = {}
    for names, together in ((_SUMS, sum), (_MEDIANS, median)):
        for name in names:
            if hasattr(parts[0], name):
                known = [value for part in parts if (value := getattr(part, name)) is not None]
                found[name] = together(known) if known else None
    return found


def spread_lines(report: Report) -> list[str]:
    """`16 × sim: 1.49 s in the median, 2.31 s at most (sim-11)`: how long the members of each ensemble took."""
    folding, lines = _folding_of(report), []
    for name, stages in groups(report.stages, lambda stage: folding.stage(stage.name)).items():
        times = [(stage.wall_s, stage.name) for stage in stages if stage.wall_s is not None]
        if len(times) > 1:
            longest, which = max(times)
            middle = duration(median(time for time, _ in times))
            lines.append(f"{name}: {middle} in the median, {duration(longest)} at most ({which})")
    return lines
