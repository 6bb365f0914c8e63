"""What programs and launchers print when Ctrl-C ends them: the run itself reports the interruption."""

from __future__ import annotations

import re

from workflow.launch.launchers import LAUNCHERS

_NOTICES = [launcher.interrupt_notice for launcher in LAUNCHERS.values() if launcher.interrupt_notice is not None]
_BEGIN = re.compile(r"(?:rank \d+ of \d+: )?Traceback \(most recent call last\):$")
_END = re.compile(r"KeyboardInterrupt\b")


class Interruption:
    """Finds these lines among the others. Feed it every line of one file, in order."""

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
        return [] if any(notice.match(line) for notice in _NOTICES) else [line]

    def rest(self) -> list[str]:
        """What is still held, when no line follows."""
        held, self._held = self._held, []
        return held
