"""HTTP by hand: what well-behaved clients don't send."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

PATIENCE_S = 10.0  # of a scheduler that asks for priorities


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def lookup(token: str, account: str = "alice") -> bytes:
    path = f"/api/v1/policies/grid/priorities?account={account}"
    return head("GET", path, f"Authorization: Bearer {token}", "Connection: close")


def connect(port: int, patience_s: float = PATIENCE_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=patience_s)


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


def ask(port: int, request: bytes, patience_s: float = PATIENCE_S) -> bytes:
    with connect(port, patience_s) as connection:
        connection.sendall(request)
        return read_to_end(connection)


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3})", answer)
    assert found, answer[:200]
    return int(found[1])


def header(answer: bytes, name: str) -> str | None:
    top = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    found = re.search(rf"^{name}: *(.*)$", top, re.IGNORECASE | re.MULTILINE)
    return found[1].strip() if found else None


def form_cookie(port: int) -> str:
    """The cookie without which a form is refused before its body is read."""
    page = ask(port, head("GET", "/sign-in/", "Connection: close"))
    found = re.search(rb"csrftoken=(\w+)", page)
    assert found, page[:300]
    return f"Cookie: csrftoken={found[1].decode()}"


@contextmanager
def dribbling(port: int, beginnings: list[bytes]) -> Iterator[list[socket.socket]]:
    """Connections that have sent the head and the first byte of a body, and keep silent."""
    with ExitStack() as opened:
        found = []
        for beginning in beginnings:
            connection = opened.enter_context(connect(port, 60.0))
            connection.sendall(beginning)
            found.append(connection)
        yield found
