"""Look-ups of a real web server while 200 connections hold bodies back, request the API's description all the time, or
are open pages.

The goal is the one of docs: 99 of 100 look-ups within 250 ms, beside open pages within 20 ms. An open page asks every
four seconds whether there is news. The clients are processes of their own, on the same machine.
"""

from __future__ import annotations

import http.client
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench.lookup import SLUG, prepare
from bench.report import BenchLine
from bench.series import signed_in
from bench.web_server import HOST, ask, connect, web_server

N_CONNECTIONS = 200
GOAL_S, GOAL_PAGES_S = 0.250, 0.020
SECONDS, PAGE_S = 8.0, 4.0
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
        pages = multiprocessing.get_context("spawn").Process(target=_look, args=(port, _cookie()))
        yield _line(f"{N_CONNECTIONS} open pages", port, request, pages.start, GOAL_PAGES_S)
        pages.terminate()
        pages.join()


def _line(name: str, port: int, request: bytes, disturb: Callable[[], None], goal_s: float = GOAL_S) -> BenchLine:
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
    return BenchLine(f"look-up p99 beside {goal_s * 1e3:.0f} ms: {name}", p99 / goal_s, 1.0, detail)


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


def _cookie() -> str:
    from django.conf import settings

    return f"{settings.SESSION_COOKIE_NAME}={signed_in().cookies[settings.SESSION_COOKIE_NAME].value}"


def _look(port: int, cookie: str) -> None:
    """Pages that begin one after the other and know the newest numbers."""

    def look(number: int) -> None:
        time.sleep(PAGE_S * number / N_CONNECTIONS)
        page = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Host": "localhost", "Cookie": cookie}
        while True:
            page.request("GET", f"/policy/{SLUG}/live", headers=headers)
            answer = page.getresponse()
            answer.read()
            assert answer.status in (200, 304), answer.status
            headers["If-None-Match"] = answer.headers["ETag"]
            time.sleep(PAGE_S)

    for number in range(N_CONNECTIONS):
        threading.Thread(target=look, args=(number,), daemon=True).start()
    threading.Event().wait()
