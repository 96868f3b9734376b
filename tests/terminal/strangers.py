"""Servers that are no fairshare site, or pretend: what the client does when the other end misbehaves."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stranger(ThreadingHTTPServer):
    """Answers every request alike and remembers what it was sent."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.answer, self.seen = (status, headers, body), list[dict[str, str]]()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that disconnects isn't reported."""

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Stranger)
        self.server.seen.append({"path": self.path, **dict(self.headers.items())})
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quietly."""


@contextmanager
def stranger(
    status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"{}", tls: ssl.SSLContext | None = None
) -> Iterator[Stranger]:
    server = Stranger(status, headers or {}, body)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def silence() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])
