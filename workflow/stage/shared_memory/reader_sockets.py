"""How the ends of a stream in shared memory talk: one socket for each rank that reads, to the first rank that writes.

A message is JSON with its length before it. The writer sends `{"step": …}` for each step, `{"end": true}` at the end of
the stream, and nothing else: a socket that closes before that is a writer that has died. A reader says first who it
is, then `{"done": N}` when it has finished N steps; one whose socket closes is gone, and nothing waits for it.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workflow.formats.absent_readers import absent_file, absent_readers
from workflow.formats.read_json import read_json
from workflow.stage.stage_errors import StageError

_LENGTH = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_MOST_WAITING = 4096
# How often a writer that waits for its readers looks whether one of them will not come.
_LOOK_S = 0.2


class MessageSocket:
    """One socket, and what has been received of the next message."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._received = bytearray()
        self.closed = False

    def send(self, message: Any) -> bool:
        """Send a message. Returns False where the other end is gone."""
        text = json.dumps(message, separators=(",", ":")).encode()
        try:
            self.socket.sendall(_LENGTH.pack(len(text)) + text)
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True
        return not self.closed

    def take(self, timeout_s: float = math.inf) -> Any:
        """The next message; None where it does not come in this time, or the other end is gone."""
        deadline = time.monotonic() + timeout_s
        while (found := self._next()) is None and not self.closed:
            left = max(0.0, deadline - time.monotonic())
            if not self._receive(left) and not left:
                break
        return found

    def close(self) -> None:
        """Close it: the other end sees that."""
        self.closed = True
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
        try:
            found = self.socket.recv(1 << 18)
        except ConnectionResetError:
            found = b""
        self._received += found
        self.closed = not found
        return bool(found)


class Listener:
    """Where the readers of a stream find its writer."""

    def __init__(self, contact: Path) -> None:
        self._contact, name = contact, f"wf-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{name}")
        self._socket.listen(_MOST_WAITING)
        # Readers look for a file that is not empty.
        unfinished = contact.with_name(f".{contact.name}")
        unfinished.write_text(json.dumps({"node": socket.gethostname(), "socket": name}))
        unfinished.replace(contact)

    def accept(self, readers: int) -> list[MessageSocket]:
        """Wait until so many stages have connected, with all their ranks, or will not come."""
        found: dict[str, list[MessageSocket]] = {}
        ranks: dict[str, int] = {}
        self._socket.settimeout(_LOOK_S)
        while True:
            absent = absent_readers(self._contact)
            complete = {name for name, connections in found.items() if len(connections) == ranks[name]}
            if len(complete | absent) >= readers:
                break
            try:
                connected, _ = self._socket.accept()
            except TimeoutError:
                continue
            connection = MessageSocket(connected)
            hello = connection.take() if _is_ours(connected) else None
            if hello is None:  # of somebody else, or gone at once
                connection.close()
                continue
            found.setdefault(hello["reader"], []).append(connection)
            ranks[hello["reader"]] = hello["ranks"]
        self._socket.close()
        return [each for connections in found.values() for each in connections]

    def close(self) -> None:
        """Remove the contact file."""
        self._socket.close()
        self._contact.unlink(missing_ok=True)
        absent_file(self._contact).unlink(missing_ok=True)


def connect(stream: str, contact: Path, reader: str, ranks: int) -> MessageSocket:
    """The connection of a reading rank to the writer that has left the contact file. Raises StageError."""
    found = read_json(contact.read_bytes())
    here = socket.gethostname()
    if found["node"] != here:
        raise StageError(
            f"stream {stream}: its writer is on node {found['node']}, this reader on {here}: `via: shm` joins stages "
            "on one node; use `via: sst`"
        )
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.connect(f"\0{found['socket']}")
    except OSError as error:
        connected.close()
        text = f"its writer has gone, or is in a container with a network of its own: {error.strerror}"
        raise StageError(f"stream {stream}: {text}") from error
    if not _is_ours(connected):
        connected.close()
        raise StageError(f"stream {stream}: what listens at {contact} belongs to another user")
    connection = MessageSocket(connected)
    connection.send({"reader": reader, "ranks": ranks})
    return connection


def wait_for_any(connections: Sequence[MessageSocket], timeout_s: float = math.inf) -> bool:
    """Sleep until something comes on one of them, or it closes; False: nothing has in this time."""
    poll = select.poll()
    for each in connections:
        poll.register(each.socket, select.POLLIN)
    return bool(poll.poll(None if timeout_s == math.inf else math.ceil(timeout_s * 1e3)))


def _is_ours(connected: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user."""
    text = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(text)[1]) == os.getuid()
