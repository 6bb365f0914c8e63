"""The streams of programs of the users' own, by evidence: SST's log, contact files, indexes of BP files.

A program may open something else than its stream, and ADIOS2 reports none of this. A program that does not read the
generated configuration, or that declares an IO of another name, gets ADIOS2's default engine: it writes a BP file at
the path of the stream and ends with exit code 0. Then the event says what is there instead, and the likely cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workflow.formats.bp_index import Index, is_blank, read_index
from workflow.formats.json_lines import Tail
from workflow.formats.sides import EndOfStream, Side
from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.run.observe.sst_log import Fact, SstLog
from workflow.run.state.events import (
    Event,
    FewerWriters,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
)

# ADIOS2's file engines append these to a name without a suffix. The contact file of SST has the suffix .sst.
_SUFFIXES = ("", ".bp", ".h5")
_DECLARED = re.compile(r"(?:declare_io|DeclareIO|adios2_declare_io)\s*\(\s*(?:\w+\s*,\s*)*[\"']([^\"']+)[\"']")
_MOST_SOURCE_BYTES = 1 << 20
_SOURCE_SUFFIXES = {".py", ".jl", ".m"}


@dataclass
class MissedStreams:
    """The streams in memory that a stage is to write, until each is open or a file was found in its place."""

    plan: StagePlan
    _done: set[str] = field(default_factory=set)

    def opened(self, stream: str) -> None:
        """The stream was opened: whatever is at its path is not the program's mistake."""
        self._done.add(stream)

    def poll(self, now: float) -> Iterator[Event]:
        """An event for each stream at whose path the program has written a file."""
        for end in self._unopened():
            if (found := _file_at(end)) is not None:
                self._done.add(end.stream)
                text = f"{self.plan.name} wrote the file {shown_path(found)} and did not open the stream {end.stream}"
                yield StreamTrouble(
                    now, end.stream, self.plan.name, "misplaced", f"{text}: {config_cause(self.plan, end)}"
                )

    def last(self, now: float) -> Iterator[Event]:
        """An event for each stream that a program without an error has left unopened, with no file in its place."""
        for end in self._unopened():
            self._done.add(end.stream)
            text = f"nothing is at {shown_path(Path(end.path))}; {_path_hint(end)}"
            yield StreamTrouble(now, end.stream, self.plan.name, "other", text + _declared_text(self.plan, end))

    def _unopened(self) -> list[EndPlan]:
        ends = [end for end in self.plan.ends if end.traits.in_memory and end.side == "write"]
        return [end for end in ends if end.stream not in self._done]


def another_stream(plan: StagePlan, end: EndPlan, name: str, now: float) -> StreamTrouble:
    """The program waits for readers of a stream that has another name than they open."""
    text = f"{plan.name} opened the stream {name}, which nobody reads, and not {shown_path(Path(end.path))}"
    return StreamTrouble(now, end.stream, plan.name, "misplaced", f"{text}; {_path_hint(end)}")


def _path_hint(end: EndPlan) -> str:
    if end.opened:
        return f"is `path: {Path(end.opened).name}` of its port the name that it opens?"
    return f"pass ${{{{ streams.{end.stream}.path }}}} to the program"


def _file_at(end: EndPlan) -> Path | None:
    """A file of another engine at the path of this stream."""
    return next((path for suffix in _SUFFIXES if (path := Path(end.path + suffix)).exists()), None)


def shown_path(path: Path) -> str:
    """`streams/field`: as it is called in the run directory."""
    return f"{path.parent.name}/{path.name}"


def config_cause(plan: StagePlan, end: EndPlan) -> str:
    """Why an unchanged program opens a file: it has no configuration, or not the one of its IO."""
    if end.config is None:
        return f"its `writes:` names no `config:`, so the program itself must select the engine {end.engine}"
    config = Path(end.config).name
    if end.dialect not in ("adios2.xml", "adios2.yaml"):
        return f"it does not use its generated options ({config})"
    declared = declared_ios(plan)
    if end.io in declared:
        return f'it does not read {config}: pass that name to ADIOS2, `adios2.Adios("{config}")`'
    if declared:
        return f"{_declaration(plan, declared)}, and {config} configures the IO {end.io}"
    return f"it does not read {config}, or its IO is not called {end.io}"


def _declared_text(plan: StagePlan, end: EndPlan) -> str:
    declared = declared_ios(plan)
    return f"; {_declaration(plan, declared)}, and not {end.io}" if declared and end.io not in declared else ""


def _declaration(plan: StagePlan, names: list[str]) -> str:
    """`sim.py declares the IO Output`."""
    source = ", ".join(path.name for path in _sources(plan))
    return f"{source} declares the IO{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def declared_ios(plan: StagePlan) -> list[str]:
    """The names of the IOs in the source of the program, where its command names a source: not of a compiled one."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in _sources(plan)]
    return list(dict.fromkeys(name for text in texts for name in _DECLARED.findall(text)))


def _sources(plan: StagePlan) -> list[Path]:
    """The scripts among the words of the command."""
    paths = [Path(plan.cwd) / word for word in plan.program if Path(word).suffix in _SOURCE_SUFFIXES]
    return [path for path in paths if path.is_file() and path.stat().st_size <= _MOST_SOURCE_BYTES]


@dataclass
class SstFollower:
    """A program of the user's own, by SST's log."""

    plan: StagePlan
    tail: Tail
    reported: set[EndOfStream] = field(default_factory=set)  # its own records are better
    log: SstLog = field(init=False)
    _writers: dict[str, int] = field(default_factory=dict)  # stream → how many processes have it open as its first rank
    _offered: set[str] = field(default_factory=set)  # streams that it writes and has opened, or begun to
    _strange: list[str] = field(default_factory=list)  # names of no stream, for whose readers it waits

    def __post_init__(self) -> None:
        self.log = log_of(self.plan)

    def poll(self, now: float) -> Iterator[Event]:
        """The new facts as events; the steps of one end in one event."""
        steps: dict[EndOfStream, Event] = {}
        for fact in self.log.feed(self.tail.read()):
            if fact.side == "write" and fact.kind == "closed":
                self._writers.clear()  # of all: totals that are printed at the same time may bear a wrong name
            end = end_of_fact(fact, self.plan)
            if fact.kind == "awaits":
                self._strange += [fact.name] if end is None else []
                continue
            if end is None or (end.stream, end.side) in self.reported:
                continue
            if fact.side == "write" and fact.kind in ("offered", "opened"):
                self._offered.add(end.stream)
            yield from self._copies(fact, end, now)
            event = to_event(fact, end.stream, self.plan.name, now)
            if fact.kind == "steps":
                steps[end.stream, end.side] = event
                continue
            yield event
        yield from steps.values()
        yield from self._misplaced(now)

    def _copies(self, fact: Fact, end: EndPlan, now: float) -> Iterator[Event]:
        """The first rank of a program says that it opens a stream, and gives the totals when it closes it. Two that say
        so may be no ranks of one program; more than the log must say that (`RunLoop.confirmed`)."""
        if fact.begins:
            self._writers[end.stream] = count = self._writers.get(end.stream, 0) + 1
            if count == 2 and self.plan.ranks > 1:
                text = copies_text(self.plan.name, end.stream, self.plan.ranks)
                yield StreamTrouble(now, end.stream, self.plan.name, "copies", text)

    def _misplaced(self, now: float) -> Iterator[Event]:
        """The streams for whose readers the program waits in vain, where a contact file says so, too."""
        for name in self._strange:
            for end in logged_ends(self.plan, "write"):
                contact = Path(self.plan.cwd, _stream_path(name, end) + end.traits.contact_suffix)
                if end.stream not in self._offered and contact.exists():
                    self._strange = []
                    yield another_stream(self.plan, end, name, now)
                    return


def copies_text(stage: str, stream: str, ranks: int) -> str:
    """Of a stage whose ranks do not know each other."""
    return (
        f"{ranks} copies of a program without MPI write {stream}: each process of {stage} is the only rank of its own. "
        "A serial program has one rank: remove `ranks`. One with MPI needs the launcher of its own MPI library"
    )


def log_of(plan: StagePlan) -> SstLog:
    """A reader of the log of a stage."""
    return SstLog({end.side for end in plan.ends if len(logged_ends(plan, end.side)) == 1})


@dataclass
class PlaneFollower:
    """The data planes of a stage whose own records hold everything else, until all planes are known."""

    plan: StagePlan
    tail: Tail
    log: SstLog = field(default_factory=SstLog)  # the name of a plane's stream follows it
    _known: set[str] = field(default_factory=set)

    def poll(self, now: float) -> Iterator[Event]:
        """An event per stream that it writes and logs."""
        written = {end.stream for end in logged_ends(self.plan, "write")}
        if self._known >= written:
            return
        for fact in self.log.feed(self.tail.read()):
            end = end_of_fact(fact, self.plan)
            if fact.kind == "plane" and end is not None:
                self._known.add(end.stream)
                yield to_event(fact, end.stream, self.plan.name, now)


def size_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files of a directory; 0 where it is not there."""
    try:
        files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
        return sum(each.stat().st_size for each in files)
    except OSError:
        return 0


def end_of_fact(fact: Fact, plan: StagePlan) -> EndPlan | None:
    """The end that a line of the log is about: the one of that path, or the only one, which a program may read by
    another name."""
    ends = logged_ends(plan, fact.side)
    if len(ends) == 1 and (not fact.name or fact.side == "read"):
        return ends[0]
    whole = [end for end in ends if _stream_path(fact.name, end) == _stream_path(_opened(end), end)]
    same = [end for end in ends if is_same_name(fact.name, end)]
    return next(iter(whole + same), None)


def logged_ends(plan: StagePlan, side: Side) -> list[EndPlan]:
    """The ends on one side of which the stage's log tells."""
    return [end for end in plan.ends if end.traits.counted_by == "log" and end.side == side]


def is_same_name(name: str, end: EndPlan) -> bool:
    """Whether a program that opens this name, from whichever folder, opens this stream."""
    return Path(_stream_path(name, end)).name == Path(_stream_path(_opened(end), end)).name


def _opened(end: EndPlan) -> str:
    """What the program opens."""
    return end.opened or end.path


def _stream_path(name: str, end: EndPlan) -> str:
    """What ADIOS2 opens, from the name of the stream or of its contact file."""
    return name.removesuffix(end.traits.contact_suffix)


def to_event(fact: Fact, stream: str, stage: str, now: float) -> Event:
    """A fact of the log as an event of a stream."""
    match fact.kind:
        case "plane":
            plane, _, why = fact.text.partition(": ")
            return StreamTransport(now, stream, stage, plane, why)
        case "offered":
            return StreamOffered(now, stream, stage)
        case "opened":
            return StreamOpened(now, stream, stage, fact.side)
        case "steps":
            return StreamProgress(now, stream, stage, fact.side, fact.steps, 0)
        case "failed":
            return StreamTrouble(now, stream, stage, "failed", f"stream {stream}: the connection to its writer broke")
    return StreamClosed(now, stream, stage, fact.side, fact.steps, fact.complete, fact.bytes)


@dataclass
class ContactFollower:
    """The contact file of a stream: once the file exists, its writer waits for readers."""

    stage: str
    end: EndPlan
    _seen: bool = False

    def poll(self, now: float) -> Iterator[Event]:
        """One event, once."""
        if not self._seen and Path(self.end.path + self.end.traits.contact_suffix).exists():
            self._seen = True
            yield StreamOffered(now, self.end.stream, self.stage)


@dataclass
class IndexFollower:
    """A BP file that a program of the user's own writes, by its index."""

    stage: str
    end: EndPlan
    ranks: int = 1
    _index: Index | None = None
    _fewer: bool = False
    _steps: int = 0
    _closed: bool = False

    def poll(self, now: float) -> Iterator[Event]:
        """Opened, steps, closed; and so on where the program opens the file anew."""
        # Read even if the size is the same: closing changes one byte. An index is small, and only what is new is read.
        path = Path(self.end.path) / "md.idx"
        index = read_index(path, self._index)
        if index is None:
            return
        # A file closed without a step holds one empty step, which counts only when others follow.
        steps = 0 if index.steps == 1 and is_blank(path) else index.steps
        if self._index is None:
            yield StreamOpened(now, self.end.stream, self.stage, "write")
        has_grown = steps > self._steps
        if has_grown:
            yield StreamProgress(now, self.end.stream, self.stage, "write", steps, self._size())
        if 0 < index.writers < self.ranks and not self._fewer:
            self._fewer = True
            yield FewerWriters(now, self.end.stream, self.stage, index.writers, self.ranks)
        self._index, self._steps, was_closed = index, steps, self._closed
        self._closed = not index.active
        if self._closed and (has_grown or not was_closed):
            yield StreamClosed(now, self.end.stream, self.stage, "write", steps, True, self._size())

    def _size(self) -> int:
        return sum(file.stat().st_size for file in Path(self.end.path).glob("data.*"))
