"""Another authority, as a web server on this machine that hands out whatever it is told to."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from apps.federation.wire import Head, write_policy
from apps.policies.columns import Node
from apps.policies.reshape import columns_of
from apps.signing import Link, SigningKey, digest_of, sign_document

ROOT, P1, P2, P3, ANNA = (UUID(int=n) for n in range(0xA0, 0xA5))
KEY = SigningKey(bytes(range(32)))


def projects(p1: float = 50, p2: float = 30, p3: float = 20) -> list[Node]:
    return [
        Node(P1, ROOT, "P-A1", "project", p1),
        Node(P2, ROOT, "P-A2", "project", p2),
        Node(P3, ROOT, "P-A3", "project", p3),
        Node(ANNA, P1, "anna", "user", 1.0, is_group=False),
    ]


@dataclass
class OtherSide:
    """Publishes versions one after another; `serves` may be replaced by anything."""

    at: datetime
    key: SigningKey = KEY
    chain: list[Link] = field(default_factory=list)
    head: Head | None = None
    digest: str | None = None
    status: int = 200
    serves: bytes = b""
    knows_etags: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/vo-a.fairshare"

    def publish(self, nodes: list[Node] | None = None, scope: str = "", **more: Any) -> bytes:
        """The next version, signed; `more` replaces parts of its head."""
        version = self.head.version + 1 if self.head else 1
        at = more.pop("issued_at", self.at)
        head = Head("vo-a.example", "vo-a", version, self.digest, at, at + timedelta(days=7))
        head = replace(head, **more)
        tree = columns_of([Node(ROOT, None, "VO-A", "vo", scope=scope), *(projects() if nodes is None else nodes)])
        document = write_policy(head, tree, 0)
        self.head, self.digest = head, digest_of(document)
        self.serves = sign_document(document, self.key, self.chain)
        return self.serves


@contextmanager
def serving(side: OtherSide) -> Iterator[OtherSide]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            side.asked.append({name.lower(): value for name, value in self.headers.items()})
            etag = f'"{hashlib.sha256(side.serves).hexdigest()[:16]}"'
            if side.knows_etags and self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(side.status)
            if side.knows_etags:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(side.serves)))
            self.end_headers()
            self.wfile.write(side.serves)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    side.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield side
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
