"""Look-ups of a real web server while 200 connections hold bodies back, or ask for the API's description all the time.

The goal is the one of docs: 99 of 100 look-ups within 250 ms. The client is a process of its own, on the same machine.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from apps.cli.stack import definitions
from apps.cli.stack.paths import REPOSITORY
from bench.lookup import SLUG, prepare
from bench.report import BenchLine

N_CONNECTIONS = 200
GOAL_S = 0.250
SECONDS = 8.0
_HOST = "\r\nHost: localhost\r\n"
_SLOW = (
    f"POST /sign-in/ HTTP/1.1{_HOST}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000\r\n\r\nu"
)
_SCHEMA = f"GET /api/v1/schema HTTP/1.1{_HOST}Connection: close\r\n\r\n".encode()


def measure_large() -> Iterator[BenchLine]:
    from apps.cli.stack.prepare import describe_api

    describe_api()
    token = prepare()
    path = f"/api/v1/policies/{SLUG}/priorities?account=user7"
    request = f"GET {path} HTTP/1.1{_HOST}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
    with _web_server() as port:
        yield _line("alone", port, request, lambda: None)
        with ExitStack() as held:
            yield _line(f"{N_CONNECTIONS} slow bodies", port, request, lambda: _hold(port, held))
        readers = multiprocessing.get_context("spawn").Process(target=_read, args=(port,))
        yield _line(f"{N_CONNECTIONS} readers of the API's description", port, request, readers.start)
        readers.terminate()
        readers.join()


def _line(name: str, port: int, request: bytes, disturb: Callable[[], None]) -> BenchLine:
    _ask(port, request)  # the token is known, the snapshot is there
    disturb()
    seconds, until = [], time.monotonic() + SECONDS
    while time.monotonic() < until:
        began = time.monotonic()
        answer = _ask(port, request)
        seconds.append(time.monotonic() - began)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    seconds.sort()
    p50, p99 = (seconds[int(len(seconds) * part)] for part in (0.5, 0.99))
    detail = f"p99 {p99 * 1e3:.0f} ms, p50 {p50 * 1e3:.1f} ms, {len(seconds)} look-ups"
    return BenchLine(f"look-up p99 beside 250 ms: {name}", p99 / GOAL_S, 1.0, detail)


def _hold(port: int, held: ExitStack) -> None:
    for _ in range(N_CONNECTIONS):
        held.enter_context(_connect(port)).sendall(_SLOW.encode())


def _read(port: int) -> None:
    """In a process of its own, so that it does not slow down the one that measures; until it is ended."""

    def go_on() -> None:
        while True:
            _ask(port, _SCHEMA)

    for _ in range(N_CONNECTIONS):
        threading.Thread(target=go_on, daemon=True).start()


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def _ask(port: int, request: bytes) -> bytes:
    """The status line and a little more; the rest is read and dropped."""
    with _connect(port) as connection:
        connection.sendall(request)
        beginning = connection.recv(65536)
        while connection.recv(1 << 20):
            pass
    return beginning


@contextmanager
def _web_server() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = dict(definitions.environment(Path(os.environ["FAIRSHARE_VAR"]), port))
    server = subprocess.Popen(definitions.web(port).command, env=environment, cwd=REPOSITORY)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if _ask(port, f"GET /healthz HTTP/1.1{_HOST}Connection: close\r\n\r\n".encode()):
                    break
            except OSError:
                assert time.monotonic() < deadline, "the web server does not answer"
                time.sleep(0.2)
        yield port
    finally:
        server.terminate()
        server.wait(60)
