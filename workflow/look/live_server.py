"""Serves the live page and its news: on the loopback only, to whoever has the token of this start."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from workflow.errors import WfError

LOOPBACK = "127.0.0.1"
# Under another name a page of somebody else's can point here: its name server answers with 127.0.0.1.
OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
NO_TOKEN = (
    "This address has no valid token. Open the whole address that `wf look --live` has printed: each start has another."
)
NOT_OWN = "Only requests to 127.0.0.1 or localhost are answered. Open the address that `wf look --live` has printed."
# A connection over which nothing comes is closed.
_IDLE_S = 60.0

News = Callable[[str, str], dict[str, Any]]


class LiveServer(ThreadingHTTPServer):
    """Answers `/` with the page and `/news?after=VERSION&page=ID` with what `news` returns, both only with the token.

    Raises WfError where the port is not free.
    """

    daemon_threads = True

    def __init__(self, page: bytes, news: News, port: int = 0) -> None:
        self.page, self.news, self._token = page, news, secrets.token_urlsafe(24)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            hint = "choose another one: `--port 8765`, or none"
            raise WfError(f"port {port} cannot be used: {error.strerror}", hint) from error

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{LOOPBACK}:{self.server_port}/?token={self._token}"

    def has_token(self, given: str) -> bool:
        """Whether this is the token. Takes as long for a wrong one."""
        return hmac.compare_digest(given.encode(), self._token.encode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that has been closed is no error to be printed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    server: LiveServer

    def do_GET(self) -> None:
        """Answer one request."""
        asked = urlsplit(self.path)
        given = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        if _host(self.headers.get("Host", "")) not in OWN_NAMES:
            self._send(HTTPStatus.FORBIDDEN, NOT_OWN.encode(), "text/plain")
        elif not self.server.has_token(given.get("token", "")):
            self._send(HTTPStatus.FORBIDDEN, NO_TOKEN.encode(), "text/plain")
        elif asked.path == "/":
            self._send(HTTPStatus.OK, self.server.page, "text/html")
        elif asked.path == "/news":
            news = self.server.news(given.get("after", ""), given.get("page", ""))
            answer = json.dumps(news, allow_nan=False, separators=(",", ":"))
            self._send(HTTPStatus.OK, answer.encode(), "application/json")
        else:
            self._send(HTTPStatus.NOT_FOUND, b"There is nothing at this address.", "text/plain")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        """Write nothing: addresses have the token."""


def _host(header: str) -> str:
    """`localhost` of `localhost:8080`; a tunnel may have another port."""
    name, _, port = header.rpartition(":")
    return (name if port.isdecimal() else header).lower()
