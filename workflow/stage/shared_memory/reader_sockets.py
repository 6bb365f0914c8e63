"""How the ends of a stream in shared memory talk: one socket for each rank that reads, to the first rank that writes.

A message is JSON with its length before it. The writer sends `{"step": …}` for each step, which says where in its
memory the layout of the step is, `{"end": true}` at the end of the stream, and nothing else: a socket that closes
before that is a writer that has died. A reader says first who it is, then `{"done": N}` when it has finished N steps;
one whose socket closes is gone, and nothing waits for it. No end waits while it sends.

The socket has no name in a file system; its name stands in the contact file, at the path of the stream. Each end makes
sure that the other one is a process of the same user.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow.formats.absent_readers import absent_readers
from workflow.formats.read_json import read_json
from workflow.stage.stage_errors import StageError

_LENGTH = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_MOST_WAITING = 4096
_LONGEST_POLL_MS = 2**31 - 1
# How often a writer that waits for its readers looks whether one of them will not come.
_LOOK_S = 0.2
_INSTEAD = "use `via: sst` with `transport: tcp`"


class MessageSocket:
    """One socket, what has been received of the next message, and what the other end has not taken yet."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.closed = False
        self._received, self._unsent = bytearray(), bytearray()

    @property
    def events(self) -> int:
        """What to wait for."""
        return select.POLLIN | (select.POLLOUT if self._unsent else 0)

    def send(self, message: Any) -> None:
        """Send a message, without waiting: what the other end does not take now, `flush` sends later."""
        text = json.dumps(message, separators=(",", ":")).encode()
        self._unsent += _LENGTH.pack(len(text)) + text
        self.flush()

    def flush(self) -> None:
        """Send what has not been sent yet, as far as the other end takes it."""
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def take(self, timeout_s: float = math.inf) -> Any:
        """The next message; None where it does not come in this time, or the other end is gone."""
        deadline = time.monotonic() + timeout_s
        while (found := self._next()) is None and not self.closed:
            left = max(0.0, deadline - time.monotonic())
            if not self._receive(left) and not left:
                break
        return found

    def close(self) -> None:
        """Close it: the other end sees that, also where a process that was forked has a copy."""
        self.closed = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _next(self) -> Any:
        """The next whole message that has been received."""
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        text = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return json.loads(text)

    def _receive(self, timeout_s: float) -> bool:
        """Take what comes in this time; False: nothing, or the other end is gone."""
        if not wait_for_any([self], timeout_s):
            return False
        self.flush()
        try:
            found = self.socket.recv(1 << 18, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            found = b""
        self._received += found
        self.closed = self.closed or not found
        return bool(found)


class Listener:
    """Where the readers of a stream find its writer."""

    def __init__(self, contact: Path) -> None:
        self._contact, name = contact, f"wf-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{name}")
        self._socket.listen(_MOST_WAITING)
        self._socket.setblocking(False)
        # Readers look for a file that is not empty.
        unfinished = contact.with_name(f".{contact.name}")
        unfinished.write_text(json.dumps({"node": socket.gethostname(), "pid": os.getpid(), "socket": name}))
        unfinished.replace(contact)

    def accept(self, readers: int) -> list[MessageSocket]:
        """Wait until so many stages have connected, with all their ranks, or will not come."""
        silent: list[MessageSocket] = []  # those that have not said who they are
        found: dict[str, list[MessageSocket]] = {}
        hellos: dict[str, Any] = {}
        while True:
            complete = {name for name, ranks in found.items() if len(ranks) == hellos[name]["ranks"]}
            if len(complete | absent_readers(self._contact)) >= readers:
                break
            if not wait_for_any(silent, _LOOK_S, self._socket):
                continue
            with suppress(BlockingIOError):
                connected, _ = self._socket.accept()
                silent.append(MessageSocket(connected))
                if not _is_ours(connected):
                    silent.pop().close()
            for each in [*silent]:
                hello = each.take(0.0)
                if hello is not None or each.closed:
                    silent.remove(each)
                if hello is None:
                    continue
                reader = hello["reader"]
                # A program that is started again before all of its ranks had come.
                if hellos.setdefault(reader, hello)["attempt"] != hello["attempt"]:
                    hellos[reader], found[reader] = hello, []
                found.setdefault(reader, []).append(each)
        for each in silent:
            each.close()
        self._socket.close()
        return [each for connections in found.values() for each in connections]

    def close(self) -> None:
        """Remove the contact file."""
        self._socket.close()
        self._contact.unlink(missing_ok=True)


def connect(stream: str, contact: Path, hello: Mapping[str, Any]) -> MessageSocket:
    """The connection of a reading rank to the writer that has left the contact file. Raises StageError.

    `hello`: the name of the `reader`, its number of `ranks`, and a word that they have in common, `attempt`.
    """
    found = read_json(contact.read_bytes())
    here = socket.gethostname()
    if found["node"] != here:
        raise StageError(
            f"stream {stream}: its writer is on node {found['node']}, this reader on {here}: shared memory joins "
            f"stages on one node; {_INSTEAD}"
        )
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.connect(f"\0{found['socket']}")
    except OSError as error:
        connected.close()
        text = f"its writer has gone, or is in a container with a network of its own: {error.strerror}"
        text += f" (for a container {_INSTEAD})"
        raise StageError(f"stream {stream}: {text}") from error
    process, user = _peer(connected)
    if user != os.getuid() or process != found["pid"]:
        connected.close()
        what = "belongs to another user" if user != os.getuid() else "is in a container with processes of its own"
        raise StageError(f"stream {stream}: its writer {what}: its memory cannot be opened; {_INSTEAD}")
    connection = MessageSocket(connected)
    connection.send(hello)
    return connection


def wait_for_any(
    connections: Sequence[MessageSocket], timeout_s: float = math.inf, listening: socket.socket | None = None
) -> bool:
    """Sleep until something comes on one of them, or can be sent, or it closes; False: nothing has in this time."""
    poll = select.poll()
    for each in connections:
        poll.register(each.socket, each.events)
    if listening is not None:
        poll.register(listening, select.POLLIN)
    return bool(poll.poll(None if timeout_s == math.inf else min(math.ceil(timeout_s * 1e3), _LONGEST_POLL_MS)))


def _is_ours(connected: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user."""
    return _peer(connected)[1] == os.getuid()


def _peer(connected: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end, as they are called here."""
    text = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(text)
    return process, user
