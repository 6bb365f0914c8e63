"""A program of the user's own that opened something else than its stream: what is there instead, and the likely cause.

ADIOS2 reports none of this. A program that does not read the generated configuration, or that declares an IO of another
name, gets ADIOS2's default engine: it writes a BP file at the path of the stream and ends with exit code 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.run.state.events import Event, StreamTrouble

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
                text = f"{self.plan.name} wrote the file {_shown(found)} and did not open the stream {end.stream}"
                yield StreamTrouble(now, end.stream, self.plan.name, "misplaced", f"{text}: {_cause(self.plan, end)}")

    def last(self, now: float) -> Iterator[Event]:
        """An event for each stream that a program without an error has left unopened, with no file in its place."""
        for end in self._unopened():
            self._done.add(end.stream)
            text = f"nothing is at {_shown(Path(end.path))}; {_path_hint(end)}"
            yield StreamTrouble(now, end.stream, self.plan.name, "other", text + _declared_text(self.plan, end))

    def _unopened(self) -> list[EndPlan]:
        ends = [end for end in self.plan.ends if end.traits.in_memory and end.side == "write"]
        return [end for end in ends if end.stream not in self._done]


def another_stream(plan: StagePlan, end: EndPlan, name: str, now: float) -> StreamTrouble:
    """The program waits for readers of a stream that has another name than they open."""
    text = f"{plan.name} opened the stream {name}, which nobody reads, and not {_shown(Path(end.path))}"
    return StreamTrouble(now, end.stream, plan.name, "misplaced", f"{text}; {_path_hint(end)}")


def _path_hint(end: EndPlan) -> str:
    return f"pass ${{{{ streams.{end.stream}.path }}}} to the program"


def _file_at(end: EndPlan) -> Path | None:
    """A file of another engine at the path of this stream."""
    return next((path for suffix in _SUFFIXES if (path := Path(end.path + suffix)).exists()), None)


def _shown(path: Path) -> str:
    """`streams/field`: as it is called in the run directory."""
    return f"{path.parent.name}/{path.name}"


def _cause(plan: StagePlan, end: EndPlan) -> str:
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
