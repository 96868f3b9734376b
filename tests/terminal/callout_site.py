"""A small server that answers look-ups as a site does, and misbehaves on request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def factor_of(user: str) -> float:
    """Another one for each name, the same each time."""
    return (sum(map(ord, user)) % 1000) / 1000


class FakeSite(ThreadingHTTPServer):
    """Factors by `factor`, snapshot by `snapshot`; `behave` replaces the answer to a request."""

    request_queue_size = 128

    def __init__(self) -> None:
        self.snapshot = 1
        self.age_s = 5.0
        self.factor: Callable[[str], float] = factor_of
        self.behave: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.seen: list[dict[str, Any]] = []
        self.pages: dict[str, Any] = {}
        self._ended = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Callers that hang up are part of these tests."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def hang(self, _handler: BaseHTTPRequestHandler) -> None:
        self._ended.wait(30)

    def trickle(self, handler: BaseHTTPRequestHandler) -> None:
        """A byte a second of an answer that would be right."""
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            if self._ended.wait(1):
                return

    def end(self) -> None:
        self._ended.set()
        self.shutdown()
        self.server_close()

    def lookup(self, accounts: list[Any]) -> list[dict[str, Any]]:
        found = []
        for account in accounts:
            asked = {"user": account} if isinstance(account, str) else account
            user = asked.get("user") or asked.get("group", "")
            about = {name: asked[name] for name in ("group", "namespace") if asked.get(name)}
            one = {"account": user, **about, "entry": f"/{asked.get('project', 'all')}/{user}"}
            if user.startswith("stranger"):
                one.update(entry=None, error="unmapped", factor=0.25)
            else:
                one.update(factor=self.factor(user + asked.get("group", "") + asked.get("project", "")))
            found.append(one)
            if user.startswith("both"):
                found.append({**one, "factor": 0.0, "entry": "/worse"})
        return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        self._answer(None)

    def _answer(self, body: Any) -> None:
        site = self.server
        assert isinstance(site, FakeSite)
        site.seen.append({"path": self.path, "headers": dict(self.headers.items()), "body": body, "at": time.time()})
        if site.behave is not None:
            self.close_connection = True
            site.behave(self)
            return
        if body is None:
            found = site.pages.get(self.path.partition("?")[0].rpartition("/policies/grid/")[2])
            self.send(200 if found is not None else 404, found or {"code": "not_found", "detail": "No such thing."})
        elif self.headers.get("If-None-Match") == f'"{site.snapshot}"':
            self.send(304, None)
        else:
            head = {"policy": "grid", "snapshot": site.snapshot, "age_s": site.age_s}
            self.send(200, {**head, "results": site.lookup(body["accounts"])})

    def send(self, status: int, document: Any) -> None:
        text = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Quietly."""


@contextmanager
def fake_site() -> Iterator[FakeSite]:
    site = FakeSite()
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.end()
        thread.join()
