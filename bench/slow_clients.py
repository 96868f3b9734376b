"""Look-ups of a real web server while 200 connections hold bodies back, or request the API's description all the time.

The goal is the one of docs: 99 of 100 look-ups within 250 ms. The client is a process of its own, on the same machine.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench.lookup import SLUG, prepare
from bench.report import BenchLine
from bench.web_server import HOST, ask, connect, web_server

N_CONNECTIONS = 200
GOAL_S = 0.250
SECONDS = 8.0
_SLOW = f"POST /sign-in/ HTTP/1.1{HOST}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000\r\n\r\nu"
_SCHEMA = f"GET /api/v1/schema HTTP/1.1{HOST}Connection: close\r\n\r\n".encode()


def measure_large() -> Iterator[BenchLine]:
    from apps.cli.stack.prepare import describe_api

    describe_api()
    token = prepare()
    path = f"/api/v1/policies/{SLUG}/priorities?account=user7"
    request = f"GET {path} HTTP/1.1{HOST}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
    with web_server() as port:
        yield _line("alone", port, request, lambda: None)
        with ExitStack() as held:
            yield _line(f"{N_CONNECTIONS} slow bodies", port, request, lambda: _hold(port, held))
        readers = multiprocessing.get_context("spawn").Process(target=_read, args=(port,))
        yield _line(f"{N_CONNECTIONS} readers of the API's description", port, request, readers.start)
        readers.terminate()
        readers.join()


def _line(name: str, port: int, request: bytes, disturb: Callable[[], None]) -> BenchLine:
    ask(port, request)  # the token is known, the snapshot is there
    disturb()
    seconds, until = [], time.monotonic() + SECONDS
    while time.monotonic() < until:
        began = time.monotonic()
        answer = ask(port, request)
        seconds.append(time.monotonic() - began)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    seconds.sort()
    p50, p99 = (seconds[int(len(seconds) * part)] for part in (0.5, 0.99))
    detail = f"p99 {p99 * 1e3:.0f} ms, p50 {p50 * 1e3:.1f} ms, {len(seconds)} look-ups"
    return BenchLine(f"look-up p99 beside 250 ms: {name}", p99 / GOAL_S, 1.0, detail)


def _hold(port: int, held: ExitStack) -> None:
    for _ in range(N_CONNECTIONS):
        held.enter_context(connect(port)).sendall(_SLOW.encode())


def _read(port: int) -> None:
    """In a process of its own, so that it does not slow down the one that measures; until it is ended."""

    def go_on() -> None:
        while True:
            ask(port, _SCHEMA)

    for _ in range(N_CONNECTIONS):
        threading.Thread(target=go_on, daemon=True).start()
