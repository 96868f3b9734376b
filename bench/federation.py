"""Sites that follow each other: a mounted policy of 100,000 entries, fetched unchanged and applied when it changed; a
day's usage of 10,000 entries, sent and ingested. With --large it is the usage of 100,000 entries, and the grid view of
a year of it.

Both sides are in this process, with a real HTTP server on this machine between them. Ratios are seconds over the
seconds that the goal allows.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bench import grid_view
from bench.clock import stopped_clock
from bench.report import BenchLine

if TYPE_CHECKING:
    from apps.federation.models import Mount, Subscription
    from apps.policies.tree.columns import TreeColumns

N_ENTRIES = 100_000
LOOKS = 20
SAME_S, LAND_S, USAGE_S, LARGE_S = 0.2, 5.0, 5.0, 60.0
N_TELLERS, N_HOURS = 10_000, 24
SLUG, OTHERS = "bench-federation", "bench-federation-others"
_AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def measure() -> list[BenchLine]:
    """One site that mounts what one VO maintains."""
    with _served() as served:
        return [*_policies(served), *_usage(served, N_TELLERS, USAGE_S)]


def measure_large() -> list[BenchLine]:
    """The usage of as many entries as the policy has, and what the grid view makes of a year of it."""
    with _served() as served:
        return [*_usage(served, N_ENTRIES, LARGE_S), *grid_view.measure_at(_AT)]


class _Served:
    """What the other side hands out. n_asked, n_sent: questions, and bytes of bodies in answer to them."""

    def __init__(self) -> None:
        self.answer: Callable[[str], bytes] = lambda _path: b""
        self.port = self.n_asked = self.n_sent = 0


def _policies(served: _Served) -> Iterator[BenchLine]:
    from apps.federation.models import Fetch

    tree = _tree_of_the_vo(N_ENTRIES)
    other = _Authority()
    first = other.says(tree)
    served.answer = partial(_same, first)
    mount = _mounted(SLUG, served, other)
    first_s = _look(mount, "applied")
    served.n_asked = served.n_sent = 0
    same = sorted(_look(mount, "same") for _ in range(LOOKS))
    if served.n_asked != LOOKS or served.n_sent:
        raise RuntimeError(f"{served.n_asked} questions and {served.n_sent:,} bytes for {LOOKS} looks.")
    changed_s, own_s = [], time.process_time()
    for number in range(3):
        newer = other.says(_changed(tree, number))
        served.answer = partial(_same, newer)
        changed_s.append(_look(mount, "applied"))
    own_s = (time.process_time() - own_s) / 3
    message = Fetch.objects.filter(mount=mount).order_by("-id").values_list("message", flat=True)[0]
    yield BenchLine(
        f"a look at an unchanged mount / {SAME_S * 1e3:.0f} ms",
        same[-2] / SAME_S,
        1.0,
        f"{same[-2] * 1e3:.0f} ms at the 95th percentile of {LOOKS}, one conditional question each, no body",
    )
    yield BenchLine(
        f"a changed mount lands / {LAND_S:g} s",
        max(changed_s) / LAND_S,
        1.0,
        f"{max(changed_s):.2f} s, the slowest of 3 ({message}); the first document {first_s:.2f} s; "
        f"{N_ENTRIES:,} entries, {len(first) / 1e6:.0f} MB; {own_s:.2f} s each computing, the other side's included",
    )


def _same(data: bytes, _path: str) -> bytes:
    return data


class _Authority:
    """Signs one version after another."""

    def __init__(self) -> None:
        from apps.core.signing import SigningKey

        self.key, self.version = SigningKey.generate(), 0
        self.digest: str | None = None

    def says(self, tree: TreeColumns) -> bytes:
        from apps.core.signing import digest_of, sign_document
        from apps.federation.documents.wire import Head, write_policy

        self.version += 1
        head = Head("vo.example", "vo", self.version, self.digest, _AT, _AT + timedelta(days=7))
        document = write_policy(head, tree, 0)
        self.digest = digest_of(document)
        return sign_document(document, self.key)


def _tree_of_the_vo(n: int) -> TreeColumns:
    """Divisions of 100 groups with 99 users each."""
    from apps.policies.tree.columns import Node
    from apps.policies.tree.working_tree import columns_of

    root, nodes = UUID(int=1), []
    n_groups = n // 100 - n // 10_000
    for division in range(0, n_groups, 100):
        above = UUID(int=1 << 64 | division)
        nodes.append(Node(above, root, f"d{division}"))
        for group in range(division, min(division + 100, n_groups)):
            uid = UUID(int=2 << 64 | group)
            nodes.append(Node(uid, above, f"g{group}", "project", 1.0 + group % 5))
            nodes += [
                Node(UUID(int=3 << 64 | group << 16 | k), uid, f"u{group}-{k}", "user", 1.0 + k % 7, is_group=False)
                for k in range(99)
            ]
    return columns_of([Node(root, None, "vo", "vo"), *nodes])


def _changed(tree: TreeColumns, number: int) -> TreeColumns:
    """Shares of a thousand users are others, and ten groups came with ten users each."""
    from apps.policies.tree.columns import Node
    from apps.policies.tree.working_tree import columns_of

    nodes = list(tree.nodes())
    people = [at for at, node in enumerate(nodes) if not node.is_group]
    for at in people[number :: len(people) // 1000]:
        nodes[at] = replace(nodes[at], shares=(nodes[at].shares or 0) + 0.25)
    above = nodes[1].uid
    for group in range(10):
        uid = UUID(int=4 << 64 | number << 32 | group)
        nodes.append(Node(uid, above, f"new{number}-{group}", "project", 0.01))
        nodes += [
            Node(UUID(int=5 << 64 | number << 32 | group << 16 | k), uid, f"n{k}", "user", is_group=False)
            for k in range(10)
        ]
    return columns_of(nodes)


def _usage(served: _Served, n: int, goal_s: float) -> Iterator[BenchLine]:
    """Two sites that have mounted one VO; one sends, the other ingests until there is no more."""
    from django.conf import settings

    from apps.accounts.actor import COMMAND
    from apps.federation.documents.site_keys import load_keys
    from apps.federation.usage_feeds.feed_build import build_feed
    from apps.federation.usage_feeds.feed_documents import read_feed
    from apps.federation.usage_feeds.feeds import make_feed
    from apps.federation.usage_feeds.subscriptions import subscribe
    from apps.usage.models import Bucket

    names = [f"{SLUG}-{n}", f"{OTHERS}-{n}"]
    tree, other = _tree_of_the_vo(n), _Authority()
    served.answer = partial(_same, other.says(tree))
    for slug in names:
        _look(_mounted(slug, served, other), "applied")
    n_rows = _write_usage(names[1], tree)
    settings.FAIRSHARE_ISSUER, settings.FAIRSHARE_SITE = "others.example", "others"
    terms: dict[str, Any] = {"at": _AT, "actor": COMMAND}
    began = time.perf_counter()
    feed = make_feed(policy_slug=names[1], entry="/vo", name=f"usage-{n}", capacity_cores=1e6, **terms)
    build_feed(feed.pk, at=_AT)
    reported_s = time.perf_counter() - began
    settings.FAIRSHARE_ISSUER, settings.FAIRSHARE_SITE = "site.example", "site"
    row = subscribe(
        policy_slug=names[0],
        entry="/vo",
        url=f"http://127.0.0.1:{served.port}/usage",
        issuer="others.example",
        feed=feed.name,
        fingerprint=load_keys(at=_AT).key.public.fingerprint,
        capacity_cores=1e6,
        reason="bench",
        settings={"most_bytes": 256 * 1024**2},
        **terms,
    )
    ingested_s = 0.0
    own_s = time.process_time()
    n_documents = n_bytes = 0
    while not n_documents or row.is_left_behind:
        settings.FAIRSHARE_ISSUER, settings.FAIRSHARE_SITE = "others.example", "others"
        began = time.perf_counter()
        issued = read_feed(feed, since=row.number, seen=row.seen_number, at=_AT)
        reported_s += time.perf_counter() - began
        if issued is None:
            raise RuntimeError("There is nothing to tell.")
        settings.FAIRSHARE_ISSUER, settings.FAIRSHARE_SITE = "site.example", "site"
        served.answer = partial(_same, issued.data)
        ingested_s += _look(row, "applied")
        row.refresh_from_db()
        n_documents, n_bytes = n_documents + 1, n_bytes + len(issued.data)
    own_s = time.process_time() - own_s
    if Bucket.objects.filter(source=row.source).count() != n_rows:
        raise RuntimeError("What was taken isn't what was issued.")
    yield BenchLine(
        f"usage of {n:,} entries in {N_HOURS} h, issued and taken / {goal_s:g} s",
        (reported_s + ingested_s) / goal_s,
        1.0,
        f"issued in {reported_s:.2f} s, taken in {ingested_s:.2f} s; {n_rows:,} sums in {n_documents} documents of "
        f"{n_bytes / 1e6:.0f} MB, {own_s:.2f} s of it computing here",
    )


def _write_usage(slug: str, tree: TreeColumns) -> int:
    """An account for each user, and what each of them used in each hour of a day."""
    import numpy as np
    from django.db import connection

    from apps.accounts.actor import COMMAND
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.tree.stored import load_tree
    from apps.usage import pgbinary
    from apps.usage.services import NewSource, make_source
    from bench.series import _BUCKETS

    here = load_tree(Policy.objects.get(slug=slug))
    top = here.index_of_path("/vo") or 0
    rules = [Rule("glob", here.uuid(top), suffix="/{project}/{group}/{user}")]
    set_rules(policy_slug=slug, rules=rules, at=_AT, actor=COMMAND)
    source = make_source(NewSource(slug=slug, name=slug, namespace=slug), at=_AT, actor=COMMAND)
    with connection.cursor() as cursor:
        n_groups = sum(name.startswith("g") for name in tree.name)
        cursor.execute(_ACCOUNTS, {"n": n_groups, "at": _AT, "name": slug})
        cursor.execute("INSERT INTO usage_jobclass (queue, partition, qos) VALUES (%s, '', '') RETURNING id", [slug])
        job_class = int(cursor.fetchone()[0])
        cursor.execute("SELECT array_agg(id ORDER BY id) FROM accounts_account WHERE namespace = %s", [slug])
        accounts = np.array(cursor.fetchone()[0], np.int64)
    n = len(accounts) * N_HOURS
    hour = np.repeat(int(_AT.timestamp()) // 3600 - N_HOURS + np.arange(N_HOURS), len(accounts))
    used = np.random.default_rng(7).integers(1, 3600 * 1024, n) / 1024
    nothing = pgbinary.float8(np.zeros(n))
    pgbinary.copy_in(
        _BUCKETS,
        [
            pgbinary.constant_int4(source.pk, n),
            pgbinary.int4(np.tile(accounts, N_HOURS)),
            pgbinary.text(np.full(n, b"", np.bytes_)),
            pgbinary.constant_int4(job_class, n),
            pgbinary.timestamptz(hour * 3_600_000_000),
            pgbinary.float8(used),
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
        ],
    )
    with connection.cursor() as cursor:
        cursor.execute("UPDATE usage_source SET watermark = 1 WHERE id = %s", [source.pk])
        cursor.execute("ANALYZE usage_bucket")
        cursor.execute("ANALYZE accounts_account")
    return n


_ACCOUNTS = """
INSERT INTO accounts_account (namespace, user_name, group_name, dn, fqan, project, first_seen_at)
SELECT %(name)s, 'u' || g || '-' || k, 'g' || g, '', '', 'd' || g / 100 * 100, %(at)s
FROM generate_series(0, %(n)s - 1) AS g, generate_series(0, 98) AS k
"""


def _mounted(slug: str, served: _Served, other: _Authority) -> Mount:
    from django.conf import settings

    from apps.accounts.actor import COMMAND
    from apps.federation.mounts.services import make_mount
    from apps.policies.publishing.direct import publish_operations
    from apps.policies.services import make_policy

    settings.FAIRSHARE_ISSUER = "site.example"
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{served.port}"]
    make_policy(slug=slug, name=slug, at=_AT, actor=COMMAND)
    place = {"op": "add", "parent": "/", "name": "vo", "kind": "vo", "shares": 30}
    publish_operations(policy_slug=slug, operations=[place], reason="A place.", at=_AT, actor=COMMAND)
    return make_mount(
        policy_slug=slug,
        entry="/vo",
        url=f"http://127.0.0.1:{served.port}/vo",
        issuer="vo.example",
        publication="vo",
        fingerprint=other.key.public.fingerprint,
        settings={"most_points": 100, "most_entries": 1_000_000},
        reason="bench",
        at=_AT,
        actor=COMMAND,
    )


def _look(mount: Mount | Subscription, outcome: str) -> float:
    """One run as a worker does it, with what it stores."""
    from apps.federation.fetch_schedule import request_fetch
    from apps.runs.services import work_run_now

    run = request_fetch(mount, at=_AT)
    began = time.perf_counter()
    done = work_run_now(run.pk)
    seconds = time.perf_counter() - began
    if done.state != "succeeded" or done.result["outcome"] != outcome:
        raise RuntimeError(f"{done.state}: {done.error} {done.result}")
    return seconds


@contextmanager
def _served() -> Iterator[_Served]:
    """Answers on this machine, with an ETag; the clock is stopped meanwhile."""
    served = _Served()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = served.answer(self.path)
            etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            served.n_asked += 1
            if self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            served.n_sent += len(data)
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        with stopped_clock(_AT):
            yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
