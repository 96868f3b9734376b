"""A proxy on this machine that opens tunnels (CONNECT) and forwards requests with whole addresses, as Squid does."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.core.outbound_servers import Handler, request_of

USER, PASSWORD = "fairshare", "p@ss:w/ört-4711"
QUOTED = "p%40ss%3Aw%2F%C3%B6rt-4711"
_WANTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dataclass
class ConnectProxy:
    """`leads` says at which port of this machine a `host:port` is; `asked` has the first line of each request."""

    leads: dict[str, int] = field(default_factory=dict)
    demands_credentials: bool = False
    context: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        scheme = "https" if self.context else "http"
        return f"{scheme}://{f'{USER}:{QUOTED}@' if self.demands_credentials else ''}127.0.0.1:{self.port}"

    def handle(self, connection: socket.socket) -> None:
        head = request_of(connection)
        lines = head.decode("latin-1").split("\r\n")
        method, address, _ = lines[0].split(" ")
        self.asked.append(lines[0])
        if self.demands_credentials and f"Proxy-Authorization: {_WANTED}" not in lines:
            return connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        port = self.leads.get(address if method == "CONNECT" else urlsplit(address).netloc)
        if port is None:
            return connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        try:
            onward = socket.create_connection(("127.0.0.1", port), timeout=20)
        except OSError:
            return connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        with onward:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 squid\r\n\r\n")
            else:
                path = urlsplit(address)._replace(scheme="", netloc="").geturl()
                onward.sendall(head.replace(address.encode(), path.encode(), 1))
            relay(connection, onward)


def relay(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended."""
    back = threading.Thread(target=_carry, args=(other, one), daemon=True)
    back.start()
    _carry(one, other)
    back.join(20)


def _carry(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    with suppress(OSError):
        to.shutdown(socket.SHUT_WR)


def leading_to(port: int) -> Handler:
    """A handler that leads on to a server without TLS."""

    def handle(connection: socket.socket, _closed: threading.Event) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as onward:
            relay(connection, onward)

    return handle


@contextmanager
def running(proxy: ConnectProxy) -> Iterator[ConnectProxy]:
    listener = socket.create_server(("127.0.0.1", 0))
    proxy.port = int(listener.getsockname()[1])

    def talk(connection: socket.socket) -> None:
        with (
            suppress(OSError),
            proxy.context.wrap_socket(connection, server_side=True) if proxy.context else connection as wrapped,
        ):
            wrapped.settimeout(20)
            proxy.handle(wrapped)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield proxy
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
