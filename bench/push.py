"""Records through REST (JSON, checks, ingest, audit: whole requests) beside the same rows as a batch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import orjson

from bench.clock import processor_s
from bench.report import BenchLine

N_RECORDS = 50_000  # as many as one call may hold
ROUNDS = 3
GOAL = 1 / 0.4
_FIRST = datetime(2026, 3, 1, tzinfo=UTC)


def measure() -> BenchLine:
    """Fastest of several rounds; every round goes into sources of its own."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.usage.services import NewSource, make_source

    library_s = http_s = float("inf")
    records = _records()
    body = b"\n".join(map(orjson.dumps, records))
    post = _client()
    for number in range(ROUNDS):
        for kind in ("library", "http"):
            make_source(NewSource(slug=f"{kind}{number}", name=kind), at=now(), actor=COMMAND)
        library_s = min(library_s, processor_s(_library(f"library{number}", body)))
        http_s = min(http_s, processor_s(lambda slug=f"http{number}": post(slug, body)))  # type: ignore[misc]
    detail = f"{http_s:.2f} s beside {library_s:.2f} s; {N_RECORDS:,} records, {len(body) / 1e6:.0f} MB of JSON"
    return BenchLine("ingest through REST / the same rows as a batch", http_s / library_s, GOAL, detail)


def _library(slug: str, body: bytes) -> Callable[[], None]:
    """The rows are ready: what is measured is the ingest."""
    from apps.core.clock import now
    from apps.usage.models import Source
    from apps.usage.parsers.records_json import parse_records
    from apps.usage.records.ingest import ingest_batch

    batch = parse_records(body, content_type="application/x-ndjson", zone=None).batch
    source = Source.objects.get(slug=slug)

    def take() -> None:
        assert ingest_batch(source=source, rows=batch, at=now()).new == N_RECORDS

    return take


def _client() -> Callable[[str, bytes], None]:
    from django.test import Client

    from apps.accounts.actor import COMMAND
    from apps.accounts.models import Token, User
    from apps.accounts.services import NewToken, make_token
    from apps.core.clock import now

    user = User.objects.create_superuser("pusher", "pusher@example.org", "a long pass phrase")
    scopes = [Token.Scope.USAGE_WRITE]
    _token, text = make_token(NewToken(name="bench", user=user, scopes=scopes, days=1), at=now(), actor=COMMAND)
    client = Client(headers={"authorization": f"Bearer {text}", "host": "localhost"})

    def post(slug: str, body: bytes) -> None:
        answer = client.post(f"/api/v1/usage/records?source={slug}", body, content_type="application/x-ndjson")
        assert answer.status_code == 200, answer.content[:500]
        assert answer.json()["new"] == N_RECORDS

    return post


def _records() -> list[dict[str, object]]:
    """As a collector would send them: a month of jobs of two hundred users."""
    random = np.random.default_rng(8)
    start_s = random.integers(0, 28 * 86400, N_RECORDS)
    run_s = random.lognormal(7.5, 1.4, N_RECORDS).astype(np.int64).clip(1, 300_000)
    user = (random.zipf(1.5, N_RECORDS) - 1) % 200
    return [
        {
            "job": str(n),
            "cluster": "c1",
            "site": "s1",
            "user": f"user{u}",
            "group": f"group{u % 20}",
            "submit": _at(s - 60),
            "start": _at(s),
            "end": _at(s + r),
            "cpus": 8,
            "mem_mb": 4000,
            "nodes": 1,
            "queue": "batch",
            "qos": "normal",
            "requested_s": 7200,
        }
        for n, (s, r, u) in enumerate(zip(start_s.tolist(), run_s.tolist(), user.tolist(), strict=True))
    ]


def _at(second: int) -> str:
    return (_FIRST + timedelta(seconds=second)).isoformat()
