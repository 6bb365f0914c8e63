"""What a launcher writes into its stage's stderr.log about the ends of its ranks, while it still runs itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workflow.formats.json_lines import Tail
from workflow.launch.rank_ends import EndPattern, find_ends
from workflow.run.state.events import RanksEnded


@dataclass
class LauncherWords:
    """The words of one stage's launcher. `said`: all until now."""

    stage: str
    patterns: Sequence[EndPattern]
    tail: Tail
    said: list[RanksEnded] = field(default_factory=list)

    def poll(self, now: float) -> Iterator[RanksEnded]:
        """The new lines as events."""
        for end in find_ends(self.tail.read(), self.patterns):
            event = RanksEnded(now, self.stage, end.cause, end.words, end.host, end.ranks, end.number)
            self.said.append(event)
            yield event
