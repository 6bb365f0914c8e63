"""Who is connected to the writers of SST streams: ADIOS2 admits whoever knows the port, and says nothing of it.

A reader that nobody planned holds steps back like a planned one, so that the writer waits for it. The kernel's table
of connections (`/proc/PID/net/tcp`) has the address of each, and the user of those on this node.
"""

from __future__ import annotations

import math
import os
import pwd
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from workflow.plan.plan_model import Plan

PROC = Path("/proc")
LOOK_S = 2.0
_ESTABLISHED, _LISTENING = "01", "0A"


class Connection(NamedTuple):
    """A line of the table. Addresses are as in it: hexadecimal, with the port."""

    local: str
    remote: str
    state: str
    uid: int
    inode: int


def connections(text: str) -> list[Connection]:
    """The lines of `/proc/net/tcp`, without its heading."""
    fields = (line.split() for line in text.splitlines()[1:])
    return [Connection(each[1], each[2], each[3], int(each[7]), int(each[9])) for each in fields if len(each) > 9]


class StrangerWatch:
    """The connections to writers of one run that do not come from it. Each is told of once, when it was seen twice.

    In a run on several nodes a connection from another node is not judged, because it may be one of the run: a node has
    more addresses than its name tells.
    """

    def __init__(self, plan: Plan) -> None:
        self._one_node = plan.nodes == 1
        self.streams: dict[str, list[str]] = {}  # writer → its streams over the network
        for stream in plan.streams:
            if stream.traits.over_network:
                self.streams.setdefault(stream.writer, []).append(stream.name)
        self._turns = deque(self.streams)
        self._due = -math.inf
        self._known: set[tuple[str, str]] = set()  # local and remote address; judged
        self._seen_once: set[tuple[str, str]] = set()

    def next_turn(self, now: float) -> str | None:
        """The writer to look at now, one at a time; None: not yet, or there is none."""
        if not self._turns or now < self._due:
            return None
        self._due = now + LOOK_S
        self._turns.rotate(-1)
        return self._turns[0]

    def look(self, pids: Iterable[int], members: Callable[[], Container[int]]) -> list[str]:
        """The strangers that are connected to these processes: `10.0.0.5 port 40312`, or a process of this node.

        `members` finds the processes of the run: it looks at all of the node, and is only called where one is met.
        """
        its = sorted(pids)
        table = next(filter(None, (_table(pid) for pid in its)), [])
        sockets = {inode for pid in its for inode in _sockets(pid)}
        listening = {each.local[-4:] for each in table if each.state == _LISTENING and each.inode in sockets}
        ends = {(each.local, each.remote): each for each in table if each.state == _ESTABLISHED}
        found, owners = [], _Owners(members)
        for key, each in ends.items():
            if each.inode not in sockets or each.local[-4:] not in listening or key in self._known:
                continue
            who = self._stranger(each, ends.get((each.remote, each.local)), owners)
            # Tables are read one after the other: a process that was just started may not be in all of them.
            if who and key not in self._seen_once:
                self._seen_once.add(key)
                continue
            self._known.add(key)
            found += [who] if who else []
        return found

    def _stranger(self, connection: Connection, other: Connection | None, owners: _Owners) -> str:
        """Who is at the other end; empty where that is this run, or cannot be known."""
        if other is None:
            return "" if not self._one_node else _readable(connection.remote)
        if other.uid != os.getuid():
            return f"a process of user {_user(other.uid)} on this node"
        pid = owners.process_with(other.inode)
        if pid is None or pid == os.getpid() or pid in owners.members:
            return ""
        return f"process {pid} of user {_user(other.uid)} on this node"


def _table(pid: int) -> list[Connection]:
    """The connections in the network of a process: containers have networks of their own."""
    try:
        return connections((PROC / str(pid) / "net" / "tcp").read_text())
    except (OSError, ValueError):
        return []


def _sockets(pid: int) -> Iterator[int]:
    """The numbers of the sockets that a process has open."""
    folder = PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - thousands of entries, of which only names are needed
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(folder / name)  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("socket:["):
            yield int(target[8:-1])


class _Owners:
    """The processes of this node by their sockets: all are read once, and only where one is asked for."""

    def __init__(self, members: Callable[[], Container[int]]) -> None:
        self._find_members = members

    @cached_property
    def members(self) -> Container[int]:
        """Those of the run."""
        return self._find_members()

    @cached_property
    def _by_socket(self) -> dict[int, int]:
        pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208
        return {inode: pid for pid in pids for inode in _sockets(pid)}

    def process_with(self, inode: int) -> int | None:
        """The process that has a socket open; None where it is gone or cannot be examined."""
        return self._by_socket.get(inode)


def _readable(address: str) -> str:
    """`0100007F:1F90` → `127.0.0.1 port 8080`."""
    host, _, port = address.partition(":")
    numbers = bytes.fromhex(host)[::-1]
    return f"{'.'.join(map(str, numbers))} port {int(port, 16)}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
