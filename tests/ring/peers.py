"""Servers beside the instances: one that hands out files, and others that do what no peer should."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def file_server(folder: Path) -> Iterator[int]:
    """Any web server on any machine, which knows nothing of us; its port."""
    with serving(partial(_Files, directory=str(folder))) as port:
        yield port


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler], port: int = 0) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class FaultyFront:
    """In front of an instance's web server: passes everything on, until `mode` is one of those below.

    replay: what was answered at the very first. forge: the document with another content below the same signature.
    slow: one byte a second. redirect: to the address where clouds keep what a machine may know about itself.
    """

    METADATA = "http://169.254.169.254/latest/meta-data/"

    def __init__(self, port: int) -> None:
        self.port = port
        self.mode = "pass"
        self.target = ""
        self.n_sent_slowly = 0
        self._first: dict[str, tuple[dict[str, str], bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        place = request.path.partition("?")[0]
        if self.mode == "redirect":
            request.send_response(302)
            request.send_header("Location", self.METADATA)
            request.end_headers()
        elif self.mode == "replay":
            self._send(request, 200, *self._first[place])
        else:
            condition = request.headers.get("If-None-Match") if self.mode == "pass" else None
            status, headers, body = self._ask(request.path, condition)
            if status == 200 and self.mode == "pass":
                self._first.setdefault(place, (headers, body))
            self._send(request, status, headers, _forged(body) if self.mode == "forge" else body)

    def _ask(self, path: str, condition: str | None) -> tuple[int, dict[str, str], bytes]:
        given = {"If-None-Match": condition} if condition else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.target + path, headers=given), timeout=60) as found:
                return found.status, {"ETag": found.headers.get("ETag", "")}, found.read()
        except urllib.error.HTTPError as error:
            return error.code, {"ETag": error.headers.get("ETag", "")}, error.read()

    def _send(self, request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes) -> None:
        request.send_response(status)
        for name, value in headers.items():
            if value:
                request.send_header(name, value)
        if status != 304:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if self.mode != "slow":
            request.wfile.write(body)
            return
        for at in range(len(body)):  # until the other side has had enough
            request.wfile.write(body[at : at + 1])
            self.n_sent_slowly += 1
            time.sleep(1)


def _forged(body: bytes) -> bytes:
    """Another site's name in it, of the same length: every other byte and the signature stay."""
    changed = body.replace(b'"site":"site-', b'"site":"sote-')
    assert changed != body, "there is nothing to forge"
    return changed


@contextmanager
def faulty_front() -> Iterator[FaultyFront]:
    front = FaultyFront(0)

    class Answers(_Files):
        def do_GET(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):
                front.answer(self)

    with serving(Answers) as port:
        front.port = port
        yield front
