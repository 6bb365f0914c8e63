"""Detects lost nodes: no node of a repetition answers, although repetitions that began later have succeeded.

A launcher waits for minutes for a node that is lost while it starts there, and so does a run, for as long as its
`deadlines: {start: …}` allows: alone it cannot know how long launchers take here. Beside other repetitions it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflow.campaign.execution.repetition import StartedAttempt
from workflow.formats.json_lines import read_json_lines
from workflow.launch.host_lists import is_same_host
from workflow.run.events_file import EVENTS_FILE

# From the start of a repetition until one of its nodes must have answered, where others show that they do.
ANSWER_S = 20.0
# Without a proof stages start at once: then nothing is known of their nodes.
_ANSWERS = frozenset({"node_seen", "proof_taken", "stage_started"})


class StartWatch:
    """Compares the starts of repetitions on one pilot. Times are in Unix seconds."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], float] = {}
        self._answered: set[Path] = set()

    def note_success(self, pilot: str, start: StartedAttempt) -> None:
        """A repetition has succeeded."""
        key = pilot, start.nodes
        self._newest[key] = max(start.t, self._newest.get(key, start.t))

    def silent_nodes(self, pilot: str, start: StartedAttempt, hosts: Sequence[str], now: float) -> list[str]:
        """The nodes of a repetition that are lost. Of another size nothing is concluded: more nodes take longer."""
        if now - start.t < ANSWER_S or start.run_dir in self._answered or not self._has_later(pilot, start):
            return []
        begun = read_json_lines(start.run_dir / EVENTS_FILE).records[:1]
        # The records of its supervisor may be visible here late.
        if not begun or now - start.t < ANSWER_S + begun[0].get("visibility_s", 0.0):
            return []
        silent = unanswered(start.run_dir, hosts)
        if not silent:
            self._answered.add(start.run_dir)
        return silent

    def _has_later(self, pilot: str, start: StartedAttempt) -> bool:
        """Whether one of as many nodes, or more, began later and has succeeded."""
        return any(name == pilot and nodes >= start.nodes and t >= start.t for (name, nodes), t in self._newest.items())


def unanswered(run_dir: Path, hosts: Sequence[str]) -> list[str]:
    """The hosts of a run of which none has answered, without that of its supervisor; none where one has."""
    records = read_json_lines(run_dir / EVENTS_FILE).records
    if not records or any(each.get("event") in _ANSWERS for each in records):
        return []
    return [host for host in hosts if not is_same_host(host, str(records[0].get("host", "")))]
