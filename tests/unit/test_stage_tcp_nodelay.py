"""TCP connections of SST, told to send at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from workflow.stage.adios import tcp_nodelay
from workflow.stage.adios.tcp_nodelay import Connections


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, made as EVPath makes them."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        with socket.create_connection(listening.getsockname()) as here, listening.accept()[0] as there:
            yield here, there


def sends_at_once(end: socket.socket) -> bool:
    return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_both_ends_send_at_once_and_stay_open(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    assert not sends_at_once(here)
    Connections().send_at_once()
    assert sends_at_once(here)
    assert sends_at_once(there)
    here.sendall(b"still open")
    assert there.recv(10) == b"still open"


def test_nothing_else_is_changed(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    there.setblocking(False)
    socket.setdefaulttimeout(5)
    try:
        Connections().send_at_once()
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(here.fileno())
    assert not os.get_blocking(there.fileno())


def test_looks_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    steps: list[int] = []

    monkeypatch.setattr(tcp_nodelay, "_tell_all", lambda: looked.append(len(steps)))
    its = Connections()
    while len(steps) < 40:
        its.send_at_once()
        steps.append(len(steps))
    assert looked == [0, 1, 2, 4, 8, 16, 32]
