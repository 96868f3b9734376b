"""A site whose records have no kinds of resources stores and answers the same bytes as before there were kinds.

The numbers below are of commit 6d3db7808, the last one without them, but for COPY's, which leaves out usual numbers
since. A change of a format on purpose comes with new ones.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.services import make_policy, publish_document
from apps.policies.tree import names
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.serving import store
from apps.priorities.snapshots import read_data
from apps.runs.services import work_run_now
from apps.usage import pgbinary
from apps.usage.services import NewImport, NewSource, PushedRecords, make_source, push_records, start_import

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
GROUPS = ("physics", "biology", "climate")
METRICS: dict[str, dict[str, Any]] = {
    "cpu": {},
    "all": {"metric": {"weights": {"cpu_s": 1, "gpu_s": 20, "mem_gb_s": 0.25}}},
}
GOLDEN = {
    "COPY": "a6b7d5cd57b7de39c11a49f06f01013d",
    "cpu: snapshot": "6837584e12331e3e75d43fc154b6b01f",
    "cpu: tree 200": "b2a380e1054f177f0f6cd04afb18ea08",
    "cpu: priorities/all 200": "29d2b64aa9f0af47b7b3c4839ca2b023",
    "cpu: document 200": "818814c89b925513a8f5481f43970524",
    "cpu: snapshots 200": "272dcd2a36c9215d5531801155d33da2",
    "all: snapshot": "02f25332d2e0980c90c7081a80f5b7f2",
    "all: tree 200": "9b21711c396c8879cb18ba4d1ffc59ce",
    "all: priorities/all 200": "a930a4fa0101b8e1b611609c9ebd5ebe",
    "all: document 200": "eceaaec8e93b06743e63756fc8f45da6",
    "all: snapshots 200": "7f7b8fe56ca0c706988d303d10a84223",
    "usage/buckets 200": "bee778db2b732fab688b7d0da6d12cb2",
}
_LATER = b',"rank_use":[]'  # a field of the tree that came later, and has nothing to do with kinds


class FixedUids:
    """Uids of a clock that stands still, and of numbers that follow from a seed."""

    def __init__(self) -> None:
        self._next = int(AT.timestamp() * 1_000) * 4_096

    def take(self, n: int) -> int:
        self._next += n
        return self._next - n


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[list[bytes]]:
    """What is copied into tables of records, with a fixed clock and fixed uids."""
    settings.FAIRSHARE_ISSUER = "site-a.example"
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    monkeypatch.setattr(names, "_uid_clock", FixedUids())
    monkeypatch.setattr(names, "os", SimpleNamespace(urandom=random.Random("uids").randbytes))
    payloads: list[bytes] = []
    copy_in = pgbinary.copy_in

    def noted(query: str, columns: Any) -> None:
        payloads.append(query.encode() + pgbinary.copy_payload(columns))
        copy_in(query, columns)

    monkeypatch.setattr(pgbinary, "copy_in", noted)
    cache.clear()
    yield payloads
    cache.clear()


def jobs(seed: int, n: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        start = AT - timedelta(seconds=rng.randint(3_600, 40 * 86_400))
        end = start + timedelta(seconds=rng.randint(1, 3_600))
        group = rng.choice(GROUPS)
        row = {"job": str(number), "user": f"{group[0]}{rng.randint(1, 9)}", "group": group, "cpus": rng.randint(1, 64)}
        row |= {"start": f"{start:%Y-%m-%dT%H:%M:%SZ}", "end": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        row |= {"gpus": rng.randint(1, 4)} if rng.random() < 0.4 else {}
        row |= {"mem_mb": rng.randint(100, 64_000), "nodes": rng.randint(1, 3)} if rng.random() < 0.6 else {}
        row |= {"partition": rng.choice(("short", "long")), "qos": "normal"} if rng.random() < 0.5 else {}
        rows.append(row)
    return rows


def sacct(seed: int, n: int) -> str:
    rng = random.Random(seed)
    head = "JobIDRaw|Cluster|User|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocCPUS|AllocTRES\n"
    lines = []
    for number in range(n):
        start = int(AT.timestamp()) - rng.randint(3_600, 40 * 86_400)
        end, cpus = start + rng.randint(1, 3_600), rng.randint(1, 32)
        tres = f"billing={cpus},cpu={cpus},mem={rng.randint(1, 64)}G,node=1" + (
            ",gres/gpu=2" if number % 3 == 0 else ""
        )
        lines.append(f"{9000 + number}|c|p{rng.randint(1, 9)}|physics|long|normal|{start}|{start}|{end}|{end - start}|")
        lines.append(f"COMPLETED|{cpus}|{tres}\n")
    return head + "".join(lines)


def push(body: bytes) -> None:
    pushed = PushedRecords(
        source_slug="c1",
        body_stream=BytesIO(body),
        content_type="application/json",
        gzip=False,
        idempotency_key=None,
        atomic=False,
    )
    push_records(pushed, at=AT, actor=SYSTEM)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


@pytest.mark.django_db(transaction=True, reset_sequences=True)
def test_bytes_of_a_site_without_kinds_are_as_before(copied: list[bytes]) -> None:
    admin = User.objects.create_superuser("admin")
    make_source(NewSource(slug="c1", name="c1", namespace="a", site="s1"), at=AT, actor=SYSTEM)
    seen: dict[str, str] = {}
    for slug, settings in METRICS.items():
        policy = make_policy(slug=slug, name=slug, at=AT, actor=SYSTEM)
        children = [{"name": name, "kind": "group", "shares": n} for n, name in enumerate(GROUPS, 1)]
        document = {"settings": settings, "root": {"name": slug, "shares": 1, "children": children}}
        publish_document(policy_slug=slug, document=document, reason="The first.", at=AT, actor=SYSTEM)
        policy.refresh_from_db()
        rule = Rule(kind="glob", target_uid=load_tree(policy).uuid(0), group_pattern="*", suffix="/{group}")
        set_rules(policy_slug=slug, rules=[rule], at=AT, actor=SYSTEM)
    push(json.dumps(jobs(1, 400)).encode())
    push(json.dumps(jobs(2, 3)).encode())
    upload = NewImport(source_slug="c1", format="sacct", file=BytesIO(sacct(3, 200).encode()), file_name="c1.txt")
    assert work_run_now(start_import(upload, at=AT, actor=SYSTEM).run_id or 0).state == "succeeded"
    seen["COPY"] = digest(b"".join(copied))
    client = Client()
    client.force_login(admin)
    for slug in METRICS:
        run = work_run_now(request_recompute(policy_slug=slug, as_of=AT, at=AT, actor=SYSTEM).pk)
        store.poll()
        snapshot = Snapshot.objects.get(pk=run.result["snapshot"])
        seen[f"{slug}: snapshot"] = digest(read_data(snapshot.pk) or b"")
        for name in ("tree", "priorities/all", "document", "snapshots"):
            answer = client.get(f"/api/v1/policies/{slug}/{name}")
            body = b"".join(answer) if answer.streaming else answer.content
            seen[f"{slug}: {name} {answer.status_code}"] = digest(body.replace(_LATER, b""))
    answer = client.get("/api/v1/usage/buckets?source=c1")
    seen[f"usage/buckets {answer.status_code}"] = digest(answer.content)
    assert seen == GOLDEN
