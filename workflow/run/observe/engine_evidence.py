"""What programs of the users' own have done instead of the plan, by what lies in their folders and by SST's log.

Another engine than the planned one, a stream in the program's own directory, a writer that waits for too few readers:
ADIOS2 says nothing of all this, and the other end waits until a deadline passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workflow.engines import CONTACT_SUFFIXES, ENGINES
from workflow.formats.bp_index import VERSION, header_of
from workflow.formats.json_lines import Tail
from workflow.plan.plan_model import EndPlan, Plan, StagePlan
from workflow.run.observe.stream_evidence import config_cause, shown_path
from workflow.run.state.events import Event, StreamHint, StreamTrouble

_BY_VERSION = {each.index_version: name for name, each in ENGINES.items() if each.index_version}
_BY_H5PY = next(name for name, each in ENGINES.items() if each.library == "h5py")
_HDF5 = b"\x89HDF\r\n\x1a\n"
# The settings of each stream that is opened follow each other in the log; those of readers have no such line.
_AWAITED = re.compile(r"Param -\s+RendezvousReaderCount=(\d+)")
_OF_READER = re.compile(r"Opening Reader Stream")


@dataclass
class EngineEvidence:
    """What a stage that is seen by evidence alone writes, and how. `run`: with the readers of its streams."""

    stage: StagePlan
    run: Plan
    log: Tail
    _known: set[str] = field(default_factory=set)  # streams of which all is said
    _reads: bool = False

    def poll(self, now: float) -> Iterator[Event]:
        """An event for each stream that is written otherwise than planned, once."""
        text = self.log.read()
        self._reads = self._reads or _OF_READER.search(text) is not None
        for end in self._open():
            if end.traits.in_memory:
                yield from self._in_own_directory(end, now)
            elif end.traits.has_steps and (found := found_engine(end)) not in ("", end.engine):
                self._known.add(end.stream)
                yield self._other_engine(end, found, now)
        yield from self._awaits_too_few(text, now)

    def last(self, now: float) -> Iterator[Event]:
        """For a program that has succeeded: what it wrote in its own directory, for each stream that is not there."""
        for end in self._open():
            if end.traits.in_memory or Path(end.path).exists() or end.opened:
                continue
            wrote = self._outputs(end)
            if wrote:
                self._known.add(end.stream)
                yield StreamHint(now, end.stream, self.stage.name, _own_directory_text(end, wrote[0]))

    def _outputs(self, end: EndPlan) -> list[str]:
        try:
            return sorted(path.name for path in Path(self.stage.cwd).iterdir() if _is_output(path, end, self.stage))
        except OSError:  # the program has removed its own directory, or closed it
            return []

    def _open(self) -> list[EndPlan]:
        return [end for end in self.stage.ends if end.side == "write" and end.stream not in self._known]

    def _in_own_directory(self, end: EndPlan, now: float) -> Iterator[Event]:
        suffix = end.traits.contact_suffix
        own, planned = Path(self.stage.cwd, Path(end.path).name + suffix), Path(end.path + suffix)
        if planned.exists():
            self._known.add(end.stream)
        elif suffix and own.exists():
            self._known.add(end.stream)
            yield StreamHint(now, end.stream, self.stage.name, _own_directory_text(end, Path(end.path).name))

    def _other_engine(self, end: EndPlan, found: str, now: float) -> Event:
        name, via = self.stage.name, self.run.stream(end.stream).via
        text = f"{name} opened {shown_path(Path(end.path))} by {found}, and not by {end.engine} as `via: {via}` says"
        text += f": {config_cause(self.stage, end)}; `via: {found.lower()}` is what it does"
        if ENGINES[found].in_memory or self._is_told(end.stream):
            return StreamTrouble(now, end.stream, name, "misplaced", text)
        return StreamHint(now, end.stream, name, text)  # its readers may take what there is

    def _is_told(self, stream: str) -> bool:
        """Whether a reader gets its engine from wf, and waits for a file of that."""
        readers = [self.run.stage(name) for name in self.run.stream(stream).readers]
        return any(each.observed == "metrics" or each.end(stream, "read").config for each in readers)

    def _awaits_too_few(self, text: str, now: float) -> Iterator[Event]:
        """Where it is certain which stream the line is about: a stage with several has lines of all of them."""
        written = [end for end in self.stage.ends if end.side == "write" and end.traits.counted_by == "log"]
        reads_live = any(end.traits.in_memory for end in self.stage.ends if end.side == "read")
        if len(written) != 1 or self._reads or reads_live:
            return
        (end,) = written
        count = len(self.run.stream(end.stream).readers)
        for found in _AWAITED.finditer(text):
            awaited = int(found[1])
            if awaited < count and not end.config:
                readers = f"{count} stages read {end.stream}, and {self.stage.name} waited for {awaited} of them"
                why = f"its log says RendezvousReaderCount={awaited}: set {count} in it, or let it read a `config:`"
                yield StreamHint(now, end.stream, self.stage.name, f"{readers}; {why}")
                return


def found_engine(end: EndPlan) -> str:
    """The engine that has written what is at the place of a file; empty where nothing is there yet, or unknown."""
    path = Path(end.path)
    contacts = {each.contact_suffix: name for name, each in ENGINES.items() if each.contact_suffix in CONTACT_SUFFIXES}
    for suffix, name in contacts.items():
        if suffix and Path(f"{path}{suffix}").exists():
            return name
    if (header := header_of(path / "md.idx")) is not None:
        return _BY_VERSION.get(header[VERSION], "")
    try:
        with path.open("rb") as file:
            return _BY_H5PY if file.read(len(_HDF5)) == _HDF5 else ""
    except OSError:
        return ""


def _is_output(path: Path, end: EndPlan, stage: StagePlan) -> bool:
    """Whether a program has written this, as far as its name or what is in it shows."""
    if str(path) in stage.files or str(path) in stage.copies or path.is_symlink():
        return False
    return not end.traits.has_steps or (path / "md.idx").exists() or path.suffix in end.traits.suffixes


def _own_directory_text(end: EndPlan, name: str) -> str:
    return (
        f"it opened {name} in its own directory: give its port `path: {name}`, or pass it "
        f"${{{{ streams.{end.stream}.path }}}}"
    )
