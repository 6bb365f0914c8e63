"""Which stages run at the same time and which wait for others; cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from workflow.engines import DEFAULT_VIA, KEPT_VIA
from workflow.plan.plan_model import Coupling
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.spec.models.engine import Engine
from workflow.spec.origins import Origins

# Live or after: how the two ends of each stream follow each other.


def choose_couplings(streams: Iterable[JoinedStream], origins: Origins, notes: Notes) -> dict[str, Coupling]:
    """The coupling of every stream: as written, or the engine's default."""
    return {stream.name: _choose(stream, origins, notes) for stream in streams}


def _choose(stream: JoinedStream, origins: Origins, notes: Notes) -> Coupling:
    engine, written = stream.engine, stream.spec.coupling
    key = f"streams.{stream.name}.coupling"
    default = engine.couplings[0]
    if written is None:
        notes.why(key, f"{default} is the default of {engine.engine}")
        return default
    if written not in engine.couplings:
        notes.not_used(key, stream.spec.via, _why_not(engine, written))
        return default
    notes.why(key, f"written at {origins.of(key)}")
    return written


def _why_not(engine: Engine, written: Coupling) -> str:
    if written == "after":
        return (
            f"{engine.engine} moves steps from memory to memory, and nothing is left for a reader that starts after "
            "the writer has ended: both run at the same time"
        )
    return f"{engine.engine} cannot be read while it is written: the reader starts when the writer has ended"


StreamLinks = dict[str, dict[str, str]]  # writer → reader → stream


def start_order(
    stages: Mapping[str, DeclaredStage],
    joined: Mapping[str, JoinedStream],
    couplings: Mapping[str, Coupling],
    notes: Notes,
) -> dict[str, list[str]]:
    """Stage → stages that must have succeeded before it starts; {} where cycles leave no order. Notes the reasons."""
    if not check_cycles(stages, joined, couplings, notes):
        return {}
    waits = starts_after(stages, joined, couplings, notes.problems)
    reads: dict[str, dict[str, str]] = {}  # stage → writer → stream
    for stream in joined.values():
        for port in stream.readers if stream.writer is not None else []:
            reads.setdefault(port.stage, {})[stream.ports[0].stage] = stream.name
    for name, awaited in waits.items():
        read = reads.get(name, {})
        own = [f"reads {read[stage]} when {stage} has ended" for stage in awaited if stage in read]
        others = [stage for stage in awaited if stage not in read]
        group = [f"starts together with stages that wait for {' and '.join(others)}"] if others else []
        if awaited:
            notes.why(f"stages.{name}.starts_after", "; ".join([*own, *group]))
    for stream in joined.values():
        member = None if stream.writer is None else stages[stream.writer.stage].member
        traits, is_merged = stream.engine.traits, any(each.does_without for each in stream.readers)
        if is_merged and not (traits.in_memory or traits.counted_by == "index"):
            text = f"wf cannot see the steps of a stream by {traits.name}"
            notes.problems.add(f"streams.{stream.name}.via", text, f"use `via: {KEPT_VIA}` or `via: {DEFAULT_VIA}`")
        elif is_merged and traits.in_memory and member is not None and member.after:
            text = f"`at_once` of {member.ensemble}: the reader would wait for members that have not begun"
            notes.problems.add(f"streams.{stream.name}.via", text, f"use `via: {KEPT_VIA}`, or remove `at_once`")
    for name, stage in stages.items():
        if stage.member is not None and stage.member.after:
            waits[name] += stage.member.after
            notes.why(f"stages.{name}.starts_after", f"`at_once` of {stage.member.ensemble}: it takes their place")
    return waits


def find_cycle(nodes: Iterable[str], links: Mapping[str, Iterable[str]]) -> list[str]:
    """Names along one cycle, the first repeated at the end; empty when there is none. O(nodes + links)."""
    seen: set[str] = set()
    for root in nodes:
        if root in seen:
            continue
        seen.add(root)
        path = {root: iter(links.get(root, ()))}  # each with the links not followed yet
        while path:
            following = next(path[next(reversed(path))], None)
            if following is None:
                path.popitem()
            elif following in path:
                names = list(path)
                return [*names[names.index(following) :], following]
            elif following not in seen:
                seen.add(following)
                path[following] = iter(links.get(following, ()))
    return []


def check_cycles(
    stages: Mapping[str, DeclaredStage],
    joined: Mapping[str, JoinedStream],
    couplings: Mapping[str, Coupling],
    notes: Notes,
) -> bool:
    """Whether no cycle of streams keeps its stages waiting for each other; one problem for the first one that does.

    Stages that open their streams through `workflow.stage` do so in one order, that of the pipeline, so that each
    open meets its other ends: a circle of SST streams between them is fine. Others are to see to the order of their
    opens themselves, as `closes_circle` of the stream that leads back says.
    """
    problems = notes.problems
    closing_streams = [stream for stream in joined.values() if stream.spec.closes_circle]
    every = _links(joined.values())
    before = problems.count
    for stream in closing_streams:
        _check_closing(stream, couplings, every, problems)
    if problems.count > before:
        return False
    links = _links(stream for stream in joined.values() if stream not in closing_streams)
    if not find_cycle(stages, links):
        return True
    fine = {
        stream.name
        for stream in joined.values()
        if stream.engine.traits.in_memory and all(stages[port.stage].spec.uses_stage for port in stream.ports)
    }
    cycle = _waiting_cycle(links, fine)
    if not cycle:
        notes.advise(
            "stages read each other's streams in a circle: one of them must write its first step before it reads one, "
            "and at the end each must leave what it reads before it closes what it writes"
        )
        return True
    closing = links[cycle[-2]][cycle[-1]]
    arrows = " → ".join(cycle)
    foreign = " and ".join(name for name in dict.fromkeys(cycle) if not stages[name].spec.uses_stage)
    said = f"write `closes_circle: true` in streams.{closing} if their order is one in which none waits for another"
    if len(cycle) == 2:
        problems.add(f"streams.{closing}", f"stage {cycle[0]} would read its own stream", "a stream needs two stages")
    elif any(couplings.get(links[a][b]) == "after" for a, b in pairwise(cycle)):
        problems.add(
            f"streams.{closing}",
            f"cycle {arrows}: each of these stages would start after another of them",
            "remove one of these streams",
        )
    elif files := [links[a][b] for a, b in pairwise(cycle) if not joined[links[a][b]].engine.traits.in_memory]:
        problems.add(
            f"streams.{files[0]}",
            f"cycle {arrows}: a live file can be opened when its first step is written, and each of these stages "
            "opens its streams before it writes",
            f"{said}, or use `via: sst`" if foreign else "use `via: sst` for all streams of the cycle",
        )
    else:
        problems.add(
            f"streams.{closing}",
            f"cycle {arrows}: opening a stream waits for its other end, so all must open these streams in the same "
            f"order, and the order in {foreign} is not known to wf",
            f"{said}; else remove one of these streams, or let {foreign} open them through `workflow.stage`",
        )
    return False


def _links(streams: Iterable[JoinedStream]) -> StreamLinks:
    links: StreamLinks = {}
    for stream in streams:
        for reader in stream.readers if stream.writer is not None else ():
            links.setdefault(stream.ports[0].stage, {}).setdefault(reader.stage, stream.name)
    return links


def _check_closing(
    stream: JoinedStream, couplings: Mapping[str, Coupling], links: StreamLinks, problems: Problems
) -> None:
    """A stream of which was said that it leads back, and whose reader can begin before its writer has ended."""
    if stream.writer is None or not stream.readers:
        return
    key, writer = f"streams.{stream.name}.closes_circle", stream.writer.stage
    back = next((way for reader in stream.readers if (way := _way(reader.stage, writer, links))), None)
    if back is None:
        readers = " and ".join(reader.stage for reader in stream.readers)
        problems.add(key, f"no streams lead from {readers} to {writer}: {stream.name} closes no circle", "remove it")
    elif len(back) == 1:
        problems.add(f"streams.{stream.name}", f"stage {writer} would read its own stream", "a stream needs two stages")
    elif couplings.get(stream.name) == "after":
        arrows = " → ".join([writer, *back])
        text = f"cycle {arrows}: {back[0]} would start when {writer} has ended, which waits for it"
        problems.add(f"streams.{stream.name}.via", text, "use `via: sst`, or `coupling: live`")


def _waiting_cycle(links: StreamLinks, fine: set[str]) -> list[str]:
    """A cycle with a stream in it that is not fine, or that begins and ends in one stage; [] when there is none."""
    for writer, readers in links.items():
        for reader, stream in readers.items():
            if writer == reader:
                return [writer, reader]
            if stream not in fine and (back := _way(reader, writer, links)):
                return [writer, *back]
    return []


def _way(start: str, goal: str, links: StreamLinks) -> list[str]:
    """The stages on a shortest way from one stage to another, both included; [] when there is none."""
    came: dict[str, str] = {start: ""}
    todo = [start]
    for stage in todo:
        if stage == goal:
            way = [stage]
            while came[way[-1]]:
                way.append(came[way[-1]])
            return way[::-1]
        new = [reader for reader in links.get(stage, ()) if reader not in came]
        came |= dict.fromkeys(new, stage)
        todo += new
    return []


def live_groups(stages: Iterable[str], live: Iterable[Sequence[str]]) -> dict[str, str]:
    """Stage → name of its group: stages joined by live streams, which start together. `live`: the ends of each."""
    parent = {stage: stage for stage in stages}

    def root(stage: str) -> str:
        while parent[stage] != stage:
            parent[stage] = parent[parent[stage]]
            stage = parent[stage]
        return stage

    for ends in live:
        for other in ends[1:]:
            parent[root(other)] = root(ends[0])
    return {stage: root(stage) for stage in parent}


def starts_after(
    stages: Iterable[str], joined: Mapping[str, JoinedStream], couplings: Mapping[str, Coupling], problems: Problems
) -> dict[str, list[str]]:
    """Stage → stages that must have succeeded before it starts.

    A whole live group waits for what any of its stages waits for: a live stream's ends start together.
    """
    names = list(stages)
    live = [stream for stream in joined.values() if couplings.get(stream.name) == "live"]
    group_of = live_groups(names, ([port.stage for port in stream.ports] for stream in live))
    waits: dict[str, dict[str, str]] = {}  # group → stage waited for → stream
    for stream in joined.values():
        if couplings.get(stream.name) == "after" and stream.writer is not None:
            for reader in stream.readers:
                waits.setdefault(group_of[reader.stage], {}).setdefault(stream.writer.stage, stream.name)
    links = {group: [group_of[stage] for stage in waited] for group, waited in waits.items()}
    cycle = find_cycle(dict.fromkeys(group_of.values()), links)
    if cycle:
        _refuse(cycle, group_of, waits, problems)
        return {name: [] for name in names}
    position = {name: index for index, name in enumerate(names)}
    return {name: sorted(waits.get(group_of[name], {}), key=position.__getitem__) for name in names}


def _refuse(cycle: list[str], group_of: dict[str, str], waits: dict[str, dict[str, str]], problems: Problems) -> None:
    """One group waits for itself: a stage in it is joined live and `after` to the same stages."""
    group, awaited = cycle[0], cycle[1]
    writer, stream = next((w, s) for w, s in waits[group].items() if group_of[w] == awaited)
    members = ", ".join(stage for stage, of in group_of.items() if of == group)
    problems.add(
        f"streams.{stream}.coupling",
        f"the stages {members} start together because live streams join them, so none of them can start "
        f"after {writer} has ended",
        "give the streams between these stages the same coupling, all live or all after",
    )


def may_overlap(names: list[str], waits: Mapping[str, list[str]]) -> dict[str, int]:
    """Stage → bit set (by position in `names`) of the other stages that may run at the same time."""
    position = {name: index for index, name in enumerate(names)}
    before = _before(names, waits, position)
    after = dict.fromkeys(names, 0)
    for name in names:
        left = before[name]
        while left:  # of thousands of stages few are before one
            lowest = left & -left
            after[names[lowest.bit_length() - 1]] |= 1 << position[name]
            left ^= lowest
    everyone = (1 << len(names)) - 1
    return {name: everyone & ~before[name] & ~after[name] & ~(1 << position[name]) for name in names}


def _before(names: list[str], waits: Mapping[str, list[str]], position: Mapping[str, int]) -> dict[str, int]:
    """Stage → bit set of all stages that have ended when it starts. No recursion: chains may be long."""
    before: dict[str, int] = {}
    todo = list(reversed(names))
    while todo:
        missing = [earlier for earlier in waits.get(todo[-1], []) if earlier not in before]
        if missing:
            todo += missing
            continue
        name = todo.pop()
        before[name] = 0
        for earlier in waits.get(name, []):
            before[name] |= 1 << position[earlier] | before[earlier]
    return before
