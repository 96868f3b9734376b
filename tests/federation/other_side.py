"""Another authority, as a web server on this machine that serves whatever a test sets."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import numpy as np

from apps.core.signing import Link, SigningKey, digest_of, sign_document
from apps.federation.documents.wire import Head, write_policy
from apps.federation.documents.wire_usage import RunningRows, State, UsageDocument, UsageHead, write_usage
from apps.policies.tree.columns import Node
from apps.policies.tree.working_tree import columns_of

ROOT, P1, P2, P3, ANNA = (UUID(int=n) for n in range(0xA0, 0xA5))
U2 = UUID(int=0xB0)  # the mount at the other site: each has its own uid for it
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
    etag: str = ""  # in place of one by the bytes
    wait: Callable[[], object] = lambda: None  # before each answer

    def answer(self, path: str) -> bytes:
        return self.serves

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


Side = TypeVar("Side", bound=OtherSide)
Hours = Mapping[datetime, Mapping[UUID, float]]


@dataclass
class OtherFeed(OtherSide):
    """A site that sends usage: `tell` signs one document, `use` sets what is sent to readers of each number."""

    name: str = "site-b.example"
    number: int = 0
    root: UUID = U2
    sent: dict[datetime, tuple[int, Mapping[UUID, float]]] = field(default_factory=dict)
    line: str = "first"  # by which it got its numbers
    running: Sequence[tuple[UUID, datetime, float]] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/feeds/vo-a"

    def use(self, hours: Hours, running: Sequence[tuple[UUID, datetime, float]] = ()) -> None:
        """The next state of the feed: these hours total these core-seconds now; what each question gets is signed
        when it is asked."""
        self.number += 1
        self.running = running
        self.sent |= {hour: (self.number, dict(rows)) for hour, rows in hours.items()}

    def tell(self, hours: Hours, running: Sequence[tuple[UUID, datetime, float]] | None = (), **more: Any) -> bytes:
        """One document since the number before, served to every question; `more` replaces parts of its head.

        running: entry, start, cores.
        """
        at = more.pop("issued_at", self.at)
        self.number = more.pop("number", self.number + 1)
        since = more.pop("since", self.number - 1)
        head = UsageHead(
            self.name,
            "vo-a",
            self.root,
            self.number,
            since,
            False,
            self.state(self.number),
            self.state(since) if since else None,
            at,
            at + timedelta(days=1),
            "site-b",
            100.0,
        )
        self.serves = sign_document(write_usage(usage_of(replace(head, **more), hours, running)), self.key, self.chain)
        return self.serves

    def state(self, number: int) -> State:
        return State(number, hashlib.sha256(f"{self.line} {number}".encode()).hexdigest()[:32])

    def answer(self, path: str) -> bytes:
        """What `use` brought since the number that is asked for, or what `tell` said."""
        if not self.sent:
            return self.serves
        since = int(parse_qs(urlsplit(path).query)["since"][0])
        hours = {hour: rows for hour, (number, rows) in self.sent.items() if number > since}
        return self.tell(hours, self.running, number=self.number, since=min(since, self.number))


def usage_of(head: UsageHead, hours: Hours, running: Sequence[tuple[UUID, datetime, float]] | None) -> UsageDocument:
    entries = sorted({uid for rows in hours.values() for uid in rows} | {uid for uid, *_ in running or ()}, key=str)
    place = {uid: i for i, uid in enumerate(entries)}
    rows = sorted((_hour(at), place[uid], cpu_s) for at, used in hours.items() for uid, cpu_s in used.items())
    amounts = np.zeros((len(rows), 6))
    amounts[:, 0] = [cpu_s for *_, cpu_s in rows]
    jobs = None
    if running is not None:
        n = len(running)
        jobs = RunningRows(
            np.array([place[uid] for uid, *_ in running], np.int64),
            np.array([round(start.timestamp() * 1e6) for _, start, _ in running], np.int64),
            np.array([cpus for *_, cpus in running], np.float64),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n),
            np.full(n, np.nan),
        )
    return UsageDocument(
        head,
        entries,
        np.array(sorted(map(_hour, hours)), np.int64),
        np.array([hour for hour, *_ in rows], np.int64),
        np.array([entry for _, entry, _ in rows], np.int64),
        amounts,
        jobs,
    )


def _hour(at: datetime) -> int:
    return int(at.timestamp()) // 3600


@contextmanager
def serving(side: Side) -> Iterator[Side]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            side.asked.append({":path": self.path} | {name.lower(): value for name, value in self.headers.items()})
            side.wait()
            data = side.answer(self.path)
            etag = side.etag or f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            if side.knows_etags and self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(side.status)
            if side.knows_etags:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

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
