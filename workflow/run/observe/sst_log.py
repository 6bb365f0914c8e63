"""What SST writes into a stage's stderr: which streams are open, how many steps passed, what broke.

Text of ADIOS2 2.12.1 (toolkit/sst/cp), as it prints with the environment variable SstVerbose:
level 2 has a line when a stream opens and, at its end, the totals; level 3 adds every step, with the prefix
`Writer (0x…): ` or `Reader (0x…): `; the address identifies the stream of one rank. The log reports the steps of a
reader when they begin, not when they end. A killed process prints no totals.

Ranks and threads write to one file at the same time, and ADIOS2 writes the prefix and the text of a line apart: each
arrives whole, but a text may follow the prefix of another stream, or none. So the side is taken from the text, which
differs for both. The address is believed only of a prefix that begins its line; a stage that has one stream on a side
needs none. What cannot be attributed is of no stream (`name` is ""). The log is a hint: nothing follows from it alone.

Faults of a transport are printed at any level from 1 on, and ADIOS2 waits for ever after them. Sources:
thirdparty/EVPath/EVPath/cm.c (CMact_on_data), source/adios2/toolkit/sst/dp/ucx_dp.c (UcxReadRemoteMemory) and
rdma_dp.c (PostRead).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from workflow.formats.json_lines import Tail
from workflow.formats.sides import Side
from workflow.run.state.events import Fault, TransportFault

FactKind = Literal["plane", "offered", "awaits", "opened", "steps", "failed", "closed"]


@dataclass(frozen=True)
class Fact:
    """One fact about one end of a stream. `name` is the stream's path as the program gave it, or "".

    `text` of a plane is its name, and why it is not the preferred one, if so: `evpath`, `evpath: rdma not found`.
    """

    kind: FactKind
    side: Side
    name: str
    steps: int = 0
    bytes: int = 0
    complete: bool = True
    text: str = ""
    begins: bool = False  # the first rank of a program begins to open a stream that it writes


_PREFIX = r"(?:(?P<begins>^)?(?:Reader|Writer) \((?P<address>0x[0-9a-f]+)\): )?"
# At most two values in each.
_PATTERNS: dict[str, str] = {
    "not_to_be_had": r'Preferred DataPlane "(\w+)" (?:is )?(not \w+)',
    "plane": r'Selecting DataPlane "(\w+)"',
    "reader_opening": r"Opening Reader Stream\.",
    "writer_opening": r'Opening Stream "([^"]*)"',
    "reader_opened": r'Finish opening Stream "([^"]*)", starting',
    "writer_opened": r'Finish opening Stream "([^"]*)"',
    "awaits": r'Stream "([^"]*)" waiting for [1-9]\d* readers',
    "opened_quietly": r"Writer is using \w+ Connection Communication pattern",
    "written": r"Sending (?:Empty )?TimestepMetadata for (?:Discarded )?timestep (\d+)",
    "blocked": r"Blocking on QueueFull condition",
    "read": r"SstAdvanceStep returning Success on timestep (\d+)",
    "failed": r"returning FatalError because of conn\w* failure|Writer failed before returning data",
    "summary": r'Stream "([^"]*)" \((0x[0-9a-f]+)\) summary info',
    "created": r"Timesteps Created = (\d+)",
    "consumed": r"Timesteps Consumed = (\d+)",
    "received": r"DataBytesReceived = (\d+)",
}
_PREFIXED = re.compile(r"(?:Reader|Writer) \(0x[0-9a-f]+\): ")
_LINE = re.compile(
    _PREFIX + r"[ \t]*(?:" + "|".join(f"(?P<{name}>{text})" for name, text in _PATTERNS.items()) + ")", re.MULTILINE
)
# Lines of ADIOS2 that are left out of `wf logs`: those of the log level that wf sets, and those of a program that
# leaves a stream open, which the run reports itself.
_CHATTER = re.compile(
    r"(?:DP )?(?:Reader|Writer) \(0x[0-9a-f]+\): |Param -  |(?:Writer|Reader) stream params are:|Selecting DataPlane "
    r"|mpi_dp priority=|opening fabric with provider |make_progress thread |Writer address: "
    r"|Calling fi_close|Return fi_close|Returning from fini_fabric"
    r'|Warning:  Preferred DataPlane "|Opening Stream "|Opening Reader Stream\.'
    r'|Writer is using \w+ Connection|Stream "[^"]*" \(0x[0-9a-f]+\) summary'
    r'|\w+ (?:Reader|Writer|Engine) ".*" [Dd]estroyed without a prior Close\(\)\.'
    r'|This may (?:have negative consequences|result in (?:loss of data|corrupt output|"unexpected close" or "failed))'
    r"|ADIOS2 caught SigInt, exiting|SST stream open at exit, unlinking contact file"
    # Of a stage that leaves its file open for the next attempt, by the library of ADIOS2's Python bindings.
    r"|nanobind: (?:leaked \d+ |this is likely caused by)| - leaked (?:instance|type|function) "
    r"| - \.\.\. skipped remainder"
    r"|See https://nanobind\.readthedocs\.io/en/latest/refleaks"
    r"|\t(?:Duration \(secs\)|Timesteps? [A-Z]\w+(?: Received)?|\w*Bytes\w*|Preload\w+|AverageReadRankFanIn) = "
)


@dataclass
class SstLog:
    """A reader of one stage's log. Feed it whole lines in any portions. `single`: the sides on which the stage has one
    stream, so that each line is about that."""

    single: Container[Side] = ()
    _names: dict[str, str] = field(default_factory=dict)  # address → path
    _written: dict[str, int] = field(default_factory=dict)  # path → steps written
    _read: dict[str, tuple[int, int]] = field(default_factory=dict)  # path → steps begun by its readers, the last one
    _failed: set[str] = field(default_factory=set)  # paths
    _ending: dict[str, int] = field(default_factory=dict)  # path whose summary is being printed → steps read
    _is_detailed: bool = False  # whether the log is at level 3 or above: its lines have prefixes
    # Logged before the name of their streams, each with why it is not the preferred one.
    _planes: list[tuple[str, str]] = field(default_factory=list)
    _why: str = ""  # of the next one

    def feed(self, text: str) -> Iterator[Fact]:
        """The facts in these lines, in order."""
        self._is_detailed = self._is_detailed or _PREFIXED.search(text) is not None
        for match in _LINE.finditer(text):
            if match.lastgroup == "writer_opening":
                # Of several, which may be those of readers in other ranks or threads, it is not known which is its own.
                for plane in set(self._planes) if len(set(self._planes)) == 1 else ():
                    yield Fact("plane", "write", match[(match.lastindex or 0) + 1], text=": ".join(filter(None, plane)))
                self._planes = []
            fact = self._fact(match)
            if fact is not None:
                yield fact

    def _fact(self, match: re.Match[str]) -> Fact | None:
        # The last group to close is the pattern itself; its values follow it.
        place = match.lastindex or 0
        value = match[place + 1] if place < match.re.groups else None
        match match.lastgroup:
            case "not_to_be_had":
                self._why = f"{value} {match[place + 2]}"
            case "plane":
                self._planes.append((str(value), self._why))
                self._why = ""
            case "reader_opening" if len(self._planes) == 1:
                self._planes = []
            case "writer_opening":
                self._note(match, str(value))
                # At level 2 a writer's open is not seen to end.
                return Fact("offered" if self._is_detailed else "opened", "write", str(value), begins=True)
            case "awaits":
                return Fact("awaits", "write", str(value))
            case "reader_opened" | "writer_opened":
                self._note(match, str(value))
                return Fact("opened", "read" if match.lastgroup == "reader_opened" else "write", str(value))
            case "opened_quietly":
                return None if self._is_detailed else Fact("opened", "read", "")
            case "written":
                name = self._name(match, "write")
                self._written[name] = steps = int(value or 0) + 1
                return Fact("steps", "write", name, steps)
            case "blocked":  # in the end_step of the next step
                name = self._name(match, "write")
                return Fact("steps", "write", name, self._written.get(name, 0) + 1)
            case "read":
                name, step = self._name(match, "read"), int(value or 0)
                count, last = self._read.get(name, (0, -1))
                if step > last:  # each rank says it
                    self._read[name] = count, last = count + 1, step
                return Fact("steps", "read", name, count)
            case "failed":
                name = self._name(match, "read")
                self._failed.add(name)
                return Fact("failed", "read", name)
            case "summary":
                self._ending[str(value)] = 0
            case "created":
                name = self._ending_name(match)
                self._ending.pop(name, None)
                return Fact("closed", "write", name, int(value or 0))
            case "consumed":
                self._ending[self._ending_name(match)] = int(value or 0)
            case "received":
                name = self._ending_name(match)
                complete = not self._failed & {name, ""}
                return Fact("closed", "read", name, self._ending.pop(name, 0), int(value or 0), complete)
        return None

    def _ending_name(self, match: re.Match[str]) -> str:
        """The stream that a line of a summary is about; "" where that is not known: ranks and threads end together."""
        if match["begins"] is not None and match["address"] in self._names:
            return self._names[match["address"]]
        return next(iter(self._ending)) if len(self._ending) == 1 else ""

    def _note(self, match: re.Match[str], name: str) -> None:
        if match["begins"] is not None:
            self._names[match["address"]] = name

    def _name(self, match: re.Match[str], side: Side) -> str:
        """The stream that a line without a name is about; "" where that is not known, or there is only one."""
        if side in self.single or match["begins"] is None:
            return ""
        return self._names.get(match["address"], "")


def is_chatter(line: str) -> bool:
    """Whether ADIOS2 wrote this line: due to the log level that wf sets for SST, or to a stream that was left open."""
    return _CHATTER.match(line) is not None


def last_lines(path: Path, count: int, block: int = 65536) -> list[str]:
    """The last lines of a stage's output that its program wrote, without SST's log; [] when there are none.

    Reads no more than the last `block` bytes. Blank lines are left out.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - block))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip() and not is_chatter(line)][-count:]


# The name of each group is the fault.
_FAULT = re.compile(
    r'(?P<misdirected>CM - No handler for incoming data of this version of format "[^"\n]*")'
    r"|(?P<unreachable>UCX Error during ucp_get_nbx\(\) with: [^\n]*|fi_read failed with code [^\n]*)"
)
# How often to look: programs may print much, and these lines are rare.
FAULT_LOOK_S = 1.0


@dataclass
class TransportFaultFollower:
    """The stderr of one stage with SST streams."""

    stage: str
    tail: Tail
    fresh: bool = False  # whether to look at once, even if the file seems unchanged
    _due: float = 0.0
    _found: set[str] = field(default_factory=set)

    def poll(self, now: float) -> Iterator[TransportFault]:
        """Each kind of fault, the first time that it is seen."""
        if now < self._due and not self.fresh:
            return
        self._due = now + FAULT_LOOK_S
        for match in _FAULT.finditer(self.tail.read(fresh=self.fresh)):
            fault = cast(Fault, match.lastgroup)
            if fault not in self._found:
                self._found.add(fault)
                yield TransportFault(now, self.stage, fault, match[0].rstrip(". "))
