"""The output of a run's stages: all of it for `wf logs`, and the last lines of a failed stage for the report.

It is what their programs printed: without SST's log unless asked for, and without what Ctrl-C makes them print.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from workflow.errors import RunError
from workflow.formats.lease_file import DEAD_S
from workflow.formatting import size
from workflow.launch.launchers import LAUNCHERS
from workflow.report.read.run_states import is_over
from workflow.run.control.lease import LeaseWatch
from workflow.run.observe.sst_log import is_chatter, last_lines
from workflow.run.records.find_runs import is_run
from workflow.run.records.run_directory import attempt_dir, attempts
from workflow.spec.suggest import did_you_mean, listing, shortened

_BEGIN = re.compile(r"(?:rank \d+ of \d+: )?Traceback \(most recent call last\):$")
_END = re.compile(r"KeyboardInterrupt\b")


class Interruption:
    """Leaves out what the SIGINT of a stop makes programs and launchers print. Feed it every line of one file, in
    order.

    An interrupted Python prints where it was.
    """

    def __init__(self) -> None:
        self._held: list[str] = []

    def shown(self, line: str) -> list[str]:
        """The lines that are to be shown now: none, this one, or also those that were held until it was clear.

        A traceback is held until its last line says which exception it was.
        """
        if self._held:
            if line.startswith((" ", "\t")):
                self._held.append(line)
                return []
            held, self._held = self._held, []
            if _END.match(line):
                return []
            return [*held, *self.shown(line)]
        if _BEGIN.match(line):
            self._held = [line]
            return []
        return [] if any(notice.match(line) for notice in _launchers_notices()) else [line]

    def rest(self) -> list[str]:
        """What is still held, when no line follows."""
        held, self._held = self._held, []
        return held


@cache
def _launchers_notices() -> list[re.Pattern[str]]:
    return [each.interrupt_notice for each in LAUNCHERS.values() if each.interrupt_notice is not None]


# Of a failed stage, for the report; of one that was interrupted, among so many.
ERROR_LINES, INTERRUPT_LINES = 20, 200
OUTPUT_LINES = 5  # of what it printed otherwise, which may be no error
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def last_error_lines(run_dir: Path, stage: str, attempt: int, *, interrupted: bool) -> list[str]:
    """The last lines that an attempt of a stage printed as errors, without colours.

    Args:
        interrupted: the run has stopped it: without what the SIGINT made it print.
    """
    lines = last_lines(
        attempt_dir(run_dir, stage, attempt) / "stderr.log", INTERRUPT_LINES if interrupted else ERROR_LINES
    )
    if interrupted:
        interruption = Interruption()
        lines = [shown for line in lines for shown in interruption.shown(line)] + interruption.rest()
    return _plain(lines[-ERROR_LINES:])


def last_output_lines(run_dir: Path, stage: str, attempt: int) -> list[str]:
    """The last lines that an attempt of a stage printed otherwise, without colours."""
    return _plain(last_lines(attempt_dir(run_dir, stage, attempt) / "stdout.log", OUTPUT_LINES))


def _plain(lines: Iterable[str]) -> list[str]:
    lines = [_COLOUR.sub("", line) for line in lines]
    return ["".join(c for c in line if c.isprintable() or c == "\t") for line in lines]


FILES = ("stdout.log", "stderr.log")
POLL_S = 0.25
# What is shown of a line, and what is read of a file for its last lines: of these blocks the first that is enough.
LONGEST_LINE, MOST_BYTES = 20_000, 16 * 1024**2
BLOCKS = (256 * 1024, 4 * 1024**2)


def last_logs(run_dir: Path, stage: str | None, lines: int, raw: bool = False) -> Iterator[str]:
    """The last `lines` lines of each output file, of one stage or of all; each file after a heading.

    Of a stage that printed nothing it says so. `raw`: with the lines of SST's log, as they are in the files.

    Raises:
        RunError: the run has no such stage.
    """
    outputs = _outputs(run_dir, stage, raw)
    silent = {output.stage for output in outputs}
    for output in outputs:
        text = _last(output, lines, half=True)
        yield from text
        silent -= {output.stage} if text else set()
    if lines:
        yield from (f"── {name} has printed nothing ──" for name in sorted(silent))


def follow_logs(run_dir: Path, stage: str | None, lines: int, raw: bool = False) -> Iterator[str]:
    """Like `last_logs`, then every new line as `stage: line` until the run has ended."""
    outputs = _outputs(run_dir, stage, raw)
    for output in outputs:
        yield from _last(output, lines, half=False)
    watch = LeaseWatch(run_dir, time.monotonic(), DEAD_S)
    while True:
        # Asked before reading: what a stage wrote before the run ended is then read in the last round.
        over = is_over(run_dir, watch.look(time.monotonic()))
        known = {output.path for output in outputs}
        outputs += [output for output in _outputs(run_dir, stage, raw) if output.path not in known]
        for output in outputs:
            yield from (f"{output.stage}: {line}" for line in output.new_lines(half=over))
        if over:
            return
        time.sleep(POLL_S)


@dataclass
class _Output:
    """One file of one stage, read up to `position`."""

    path: Path
    stage: str
    raw: bool
    position: int = 0
    interruption: Interruption = field(default_factory=Interruption)
    _is_cut: bool = False  # whether what follows is the rest of a line that is too long

    @property
    def title(self) -> str:
        """The stage, with its attempt where that is not the first one: `pdf attempt-2 stderr`."""
        folder = self.path.parent.name
        return f"{self.stage} {'' if folder == self.stage else f'{folder} '}{self.path.stem}"

    def new_lines(self, half: bool) -> Iterator[str]:
        """What was added since the last call; without `half`, a line that is still being written stays for later."""
        try:
            if self.path.stat().st_size <= self.position:
                return
            file = self.path.open("rb")
        except FileNotFoundError:
            return  # the stage has not started
        with file:
            file.seek(self.position)
            while line := file.readline(LONGEST_LINE):
                ends = line.endswith(b"\n")
                if not ends and not half and len(line) < LONGEST_LINE:
                    return
                self.position += len(line)
                is_rest, self._is_cut = self._is_cut, not ends
                if not is_rest:
                    yield from self._shown(line)
            # Only at the end of all: until then the rest of a traceback may follow.
            yield from self.interruption.rest() if half else ()

    def last_lines(self, count: int, half: bool) -> list[str]:
        """The last `count` lines, after which `new_lines` goes on. Reads from the end, as much as it needs."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return []
        found: list[str] = []
        with file:
            end = file.seek(0, 2)
            most = max(MOST_BYTES, count * 1024)
            for wanted in (*(block for block in BLOCKS if block < most), most):
                begin = max(0, end - wanted)
                file.seek(begin)
                lines = file.read(end - begin).split(b"\n")
                if begin and len(lines) > 1:
                    del lines[0]  # not whole
                unfinished = lines.pop()
                self._is_cut = len(unfinished) >= LONGEST_LINE
                self.position = end if half or self._is_cut else end - len(unfinished)
                lines += [unfinished] if self.position == end and unfinished else []
                self.interruption = Interruption()
                found = [text for line in lines for text in self._shown(line)]
                found += self.interruption.rest() if half else []
                # Those before them show that no traceback of an interruption goes on here.
                if not begin or len(found) >= count + INTERRUPT_LINES:
                    break
        return found[-count:] if count else []

    def _shown(self, line: bytes) -> list[str]:
        """The lines that are to be shown now."""
        cut = f" … ({size(len(line))} in one line)" if len(line) > LONGEST_LINE else ""
        text = line[:LONGEST_LINE].decode(errors="replace").rstrip("\r\n")
        # Of a bar that a program draws with carriage returns, its last state.
        last = text.rpartition("\r")[2] + cut
        return [last] if self.raw else [] if self._is_chatter(text) else self.interruption.shown(last)

    def _is_chatter(self, line: str) -> bool:
        # SST's log has blank lines, too.
        return is_chatter(line) or (self.path.name == "stderr.log" and not line.strip())


def _last(output: _Output, lines: int, half: bool) -> list[str]:
    text = output.last_lines(lines, half)
    return [f"── {output.title} ──", *text] if text else []


def _outputs(run_dir: Path, stage: str | None, raw: bool) -> list[_Output]:
    stages = sorted(path.name for path in (run_dir / "stages").iterdir() if path.is_dir())
    members = [each for each in stages if stage is not None and re.fullmatch(rf"{re.escape(stage)}-[0-9]+", each)]
    if stage is not None and stage not in stages and not members:
        near = did_you_mean(stage, stages) or f"stages: {listing(stages)}"
        hint = f"`{stage}` is a run: `wf logs --run {stage}`" if is_run(stage) else near
        raise RunError(f"{run_dir.name} has no stage `{shortened(stage)}`", hint)
    names = stages if stage is None else [stage] if stage in stages else members
    return [_Output(folder / file, name, raw) for name in names for folder in attempts(run_dir, name) for file in FILES]
