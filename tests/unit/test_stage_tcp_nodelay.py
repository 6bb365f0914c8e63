"""Options of the connections of SST: TCP_NODELAY, and how long they may be silent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from workflow.stage.adios import open_engine
from workflow.stage.adios.open_engine import Connections


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, without TCP_NODELAY, as EVPath makes them."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        with socket.create_connection(listening.getsockname()) as here, listening.accept()[0] as there:
            yield here, there


def has_nodelay(end: socket.socket) -> bool:
    return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_the_option_is_set_and_the_connection_stays_open(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    assert not has_nodelay(here)
    Connections().send_at_once()
    assert has_nodelay(here)
    assert has_nodelay(there)
    here.sendall(b"still open")
    assert there.recv(10) == b"still open"


def test_only_connections_that_were_opened_later_have_a_limit(pair: tuple[socket.socket, socket.socket]) -> None:
    connections = Connections(limit_s=15.0)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        with socket.create_connection(listening.getsockname()) as later:
            connections.send_at_once()
            limits = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for each in (*pair, later)]
            assert limits == [0, 0, 15_000]
            assert later.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert has_nodelay(later) and has_nodelay(pair[0])


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


def test_searches_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    steps: list[int] = []

    monkeypatch.setattr(open_engine, "_set_option", lambda *_: searched.append(len(steps)))
    connections = Connections()
    while len(steps) < 40:
        connections.send_at_once()
        steps.append(len(steps))
    assert searched == [0, 1, 2, 4, 8, 16, 32]
