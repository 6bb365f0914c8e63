"""The state of the nodes according to their guards, and which nodes are silent. Pure: lines and times → events."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workflow.formatting import plural
from workflow.launch.host_lists import short_host
from workflow.run.guard.guard_lines import LINE_S, NodeLoad, NodeReport, parse_line
from workflow.run.guard.rank_processes import RankProcess
from workflow.run.processes.kernel_oom_kills import MemoryFacts
from workflow.run.state.events import REPORTED_S, Event, GuardActed, NodeLost, NodeSeen, NodeSilent, NodesUnwatched

# Two beats and a half: what fails meanwhile beside a silent node may have failed because of it.
SILENT_S = 2.5 * LINE_S
# A supervisor that was suspended has read no lines meanwhile.
_OWN_PAUSE_S = 3.0


@dataclass
class _Node:
    """One node of the allocation, by its index."""

    index: int
    host: str
    heard: float = -math.inf  # when its last line came
    silent: bool = False
    reported: bool = False  # that it is silent
    lost: bool = False
    load: NodeLoad | None = None
    said: str = ""
    ranks: dict[tuple[str, int], RankProcess] = field(default_factory=dict)

    @property
    def was_heard(self) -> bool:
        return self.heard > -math.inf


@dataclass(frozen=True, order=True)
class RankSeen:
    """A rank of a stage on a node."""

    stage: str
    rank: int
    node: int
    host: str
    pid: int
    cores: str


class NodeMonitor:
    """The nodes of one run. Times are those of the caller's clock, which nobody sets.

    `own` is the host of the supervisor, which is never lost. `limit_s`: silence that alone makes a node lost
    (`state.node_loss`). `failing` and `down` are what makes it one after REPORTED_S: nodes near which a stage has
    failed, by their index, and what the scheduler says of nodes that are down, by their host.
    """

    def __init__(self, hosts: Sequence[str], own: str, limit_s: float) -> None:
        self.failing: Collection[int] = ()
        self.down: Mapping[str, str] = {}
        self._limit_s = limit_s
        self._is_mute = False  # whether it was said that no node is heard of
        self._nodes = [_Node(index, host) for index, host in enumerate(hosts)]
        self._own = short_host(own)
        self._by_name = {short_host(node.host): node for node in self._nodes}
        # Most lines are beats, and those of a node are all alike.
        self._beats: dict[bytes, _Node] = {}
        self._memory: dict[str, list[tuple[str, MemoryFacts]]] = {}
        self._changed: list[RankSeen] = []
        self._looked: float | None = None
        self._blind: list[str] = []  # hosts whose guards have said since the last look that they see no beats

    @property
    def lost_hosts(self) -> set[str]:
        """The hosts of the nodes that were lost."""
        return {node.host for node in self._nodes if node.lost}

    def take(self, lines: Iterable[bytes], now: float) -> list[Event]:
        """What these lines of the guards have said. Lines that are none of theirs are left out."""
        events: list[Event] = []
        for line in lines:
            node = self._beats.get(line)
            if node is None:
                report = parse_line(line)
                node = None if report is None else self._by_name.get(short_host(report.node))
                if node is None or report is None:
                    continue
                self._note(node, report)
                if report.ended:
                    events.append(GuardActed(now, node.host, report.ended))
                if line == b'{"node":"%s"}' % report.node.encode():
                    self._beats[line] = node
            if not node.was_heard or node.silent:
                silence_s = round(now - node.heard, 3) if node.silent else 0.0
                events.append(NodeSeen(now, node.index, node.host, silence_s))
            node.heard, node.silent, node.reported = now, False, False
        return events

    def look(self, now: float) -> list[Event]:
        """The nodes that are silent, or lost, by now: to be called when all lines that there are were taken.

        When all nodes are silent, or that of the supervisor too, the launcher of the guards is at fault.
        """
        pause = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        heard = [node for node in self._nodes if node.was_heard and not node.lost]
        if pause > _OWN_PAUSE_S:
            for node in heard:
                node.heard = min(now, node.heard + pause)
        blind, self._blind = self._blind, []
        said: list[Event] = [NodesUnwatched(now, _blind_text(blind))] if blind else []
        silent = [node for node in heard if now - node.heard >= SILENT_S]
        if len(silent) == len(heard) > 1 or any(short_host(node.host) == self._own for node in silent):
            return said + self._note_mute(silent, now)
        self._is_mute = False
        found = [(node, why) for node in silent if (why := self._verdict(node, now)) is not None]
        new = [node for node in silent if not node.silent or self._is_to_report(node, now)]
        for node in new:
            node.silent, node.reported = True, now - node.heard >= REPORTED_S
        for node, _ in found:
            node.lost = True
        return [
            *said,
            *(NodeSilent(now, node.index, node.host, round(now - node.heard, 3)) for node in new),
            *(
                NodeLost(now, node.index, node.host, round(now - node.heard, 3), _last_words(node), why)
                for node, why in found
            ),
        ]

    def _is_to_report(self, node: _Node, now: float) -> bool:
        return not node.reported and now - node.heard >= REPORTED_S

    def _verdict(self, node: _Node, now: float) -> str | None:
        """Why a silent node is lost, "" for the limit alone; None: it is not yet."""
        silence_s = now - node.heard
        if silence_s >= REPORTED_S and node.host in self.down:
            return f"the scheduler says `{self.down[node.host]}`"
        if silence_s >= REPORTED_S and node.index in self.failing:
            return "a stage that runs there, or is joined to one, has failed"
        return "" if silence_s >= self._limit_s else None

    def _note_mute(self, silent: Sequence[_Node], now: float) -> list[Event]:
        """The launcher of the guards says nothing, or cannot be heard: nothing is known of any node."""
        silence_s = min(now - node.heard for node in silent)
        if self._is_mute or silence_s < REPORTED_S:
            return []
        self._is_mute = True
        nodes = "the nodes give" if len(silent) > 1 else f"node {silent[0].host} gives"
        text = f"{nodes} no sign of life since {silence_s:.0f} s: the launcher of the guards, or a link, is at fault"
        return [NodesUnwatched(now, text)]

    def take_changed(self) -> list[RankSeen]:
        """The ranks that are new, or may use other cores, since the last call."""
        changed, self._changed = self._changed, []
        return changed

    def memory_facts(self, stage: str) -> list[tuple[str, MemoryFacts]]:
        """(host, what its kernel reports) of each node on which ranks of this stage have ended, the newest last."""
        return self._memory.get(stage, [])

    def _note(self, node: _Node, report: NodeReport) -> None:
        node.load = report.load or node.load
        node.said = report.text or node.said
        if report.sees_beats is False:
            self._blind.append(node.host)
        for each in report.ranks:
            node.ranks[each.stage, each.rank] = each
            self._changed.append(RankSeen(each.stage, each.rank, node.index, node.host, each.pid, each.cores))
        for key in report.gone:
            node.ranks.pop(key, None)
        for stage, facts in report.memory.items():
            self._memory.setdefault(stage, []).append((node.host, facts))


def _blind_text(hosts: Sequence[str]) -> str:
    more = f" and {plural(len(hosts) - 1, 'more node')}" if len(hosts) > 1 else ""
    return (
        f"on {hosts[0]}{more} the run directory shows no heartbeat of this run: its file system is slow there, or is "
        "another one"
    )


def _last_words(node: _Node) -> str:
    """What was known of a node when its last line came."""
    stages: dict[str, int] = {}
    for stage, _ in node.ranks:
        stages[stage] = stages.get(stage, 0) + 1
    ranks = ", ".join(f"{count} of {stage}" for stage, count in sorted(stages.items()))
    load = f"load {node.load.load}" if node.load is not None else ""
    return "; ".join(text for text in (f"ranks there: {ranks}" if ranks else "no rank there", load, node.said) if text)
