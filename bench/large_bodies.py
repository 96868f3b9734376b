"""Look-ups of a real web server while a person without any right sends bodies of up to 30 MB, with the CPU and memory
that the server takes for them.

The goal is that 99 of 100 look-ups take at most 50 ms beside bodies that are refused. Bodies at their limits are shown
beside them. The clients are a process of their own, on the same machine.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from apps.core import clock
from bench.lookup import SLUG, prepare
from bench.report import BenchLine
from bench.web_server import HOST, ask, web_server

N_CONNECTIONS = 8
SECONDS = 8.0
SCHEDULER = "bench-cluster"
GOAL_S = 0.050
MB = 1024**2
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Attack:
    """is_accepted: of somebody who may send it."""

    name: str
    path: str
    body: bytes
    method: str = "POST"
    headers: str = "Content-Type: application/json\r\n"
    is_accepted: bool = False


def attacks() -> list[Attack]:
    policy = f"/api/v1/policies/{SLUG}"
    empty = b"{}," * (10 * MB) + b"{}]}"
    jobs = [{"id": str(n), **{f"f{i}": 0.5 for i in range(36)}} for n in range(10_000)]
    case = {"algorithm": {"name": "slurm-multifactor"}, "weights": {}, "jobs": jobs}
    operation = {"op": "set_shares", "entry": "/nothing", **{f"f{i}": i for i in range(35)}}
    change = {"base_revision": 1, "reason": "x", "operations": [operation] * 10_000}
    return [
        Attack("30 MB of {}, to changesets", f"{policy}/changesets", b'{"base_revision":1,"operations":[' + empty),
        Attack("7.8 MB of {}, to jobs/explain", "/api/v1/jobs/explain", b'{"jobs":[' + empty[-7_800_000:]),
        Attack("7.8 MB of {}, to look-ups", f"{policy}/priorities/lookup", b'{"accounts":[' + empty[-7_800_000:]),
        Attack("3.7 MB of {}, to mappings/trial", f"{policy}/mappings/trial", b'{"rules":[' + empty[-3_700_000:]),
        Attack("180 kB of {}, to mappings/trial", f"{policy}/mappings/trial", b'{"rules":[' + empty[-180_000:]),
        Attack("at the limit: 10,000 jobs of 37 values", "/api/v1/jobs/explain", json.dumps(case).encode()),
        Attack("at the limit: 10,000 operations", f"{policy}/changesets", json.dumps(change).encode()),
    ]


def accepted() -> list[Attack]:
    """A policy of 100,000 entries in two formats, compared and not stored; an agent's report of 110,000 jobs."""
    groups = [(f"group{group}", [f"user{group * 100 + user}" for user in range(100)]) for group in range(1_000)]
    table = "path,shares\n" + "".join(
        f"/{group},1\n" + "".join(f"/{group}/{user},3\n" for user in users) for group, users in groups
    )
    lines = [f"policy: {SLUG}", "root:", f"  name: {SLUG}", "  children:"]
    for group, users in groups:
        lines += [f"  - name: {group}", "    shares: 1", "    children:"]
        for user in users:
            lines += [f"    - name: {user}", "      kind: user", "      shares: 3"]
    path = f"/api/v1/policies/{SLUG}/document?dry_run=true&format="
    as_file = {"method": "PUT", "headers": "Content-Type: application/octet-stream\r\n", "is_accepted": True}
    packed = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
    return [
        Attack("100,000 entries as CSV, compared", f"{path}csv", table.encode(), **as_file),  # type: ignore[arg-type]
        Attack("100,000 entries as YAML, compared", f"{path}yaml", "\n".join(lines).encode(), **as_file),  # type: ignore[arg-type]
        Attack(
            "an agent's report of 110,000 jobs, packed",
            f"/api/v1/schedulers/{SCHEDULER}/passes",
            gzip.compress(json.dumps(_report(), separators=(",", ":")).encode(), 6),
            headers=packed,
            is_accepted=True,
        ),
    ]


def _report() -> dict[str, Any]:
    at = clock.now()
    job = {
        "array_task": None,
        "group": "group1",
        "partition": "batch",
        "qos": "normal",
        "cpus": 8,
        "submit_at": at.isoformat(),
        "eligible_at": None,
        "state": "pending",
        "reason": "Priority",
        "priority": 587,
        "terms": {"age": 0, "fairshare": 500, "jobsize": 87},
        "value": None,
    }
    return {
        "pass": str(uuid4()),
        "agent": "1.0",
        "host": "head1",
        "orders_revision": 1,
        "started_at": at.isoformat(),
        "ended_at": at.isoformat(),
        "mode": "shadow",
        "jobs": dict.fromkeys(("pending", "mapped", "unmapped", "due", "sent", "failed", "calls"), 0),
        "queue": [
            {**job, "job": str(n), "user": f"user{n * n % 20_011}", "value": (n * 7_919) % 100_003}
            for n in range(110_000)
        ],
    }


def measure_large() -> Iterator[BenchLine]:
    token = prepare()
    path = f"/api/v1/policies/{SLUG}/priorities?account=user7"
    request = f"GET {path} HTTP/1.1{HOST}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
    stranger, known = _token_of_a_stranger(), _token_of_one_who_may()
    with web_server() as port:
        yield _beside(Attack("nothing", "", b""), port, request, stranger)
        for attack in attacks():
            yield _beside(attack, port, request, stranger)
        for upload in accepted():
            yield _beside(upload, port, request, known)


def _token_of_a_stranger() -> str:
    from apps.accounts.actor import COMMAND
    from apps.accounts.models import User
    from apps.accounts.services import NewToken, make_token
    from apps.core import clock

    user, _ = User.objects.get_or_create(username="stranger")
    scopes = ["policies:write", "policies:read", "self:read", "priorities:read"]
    return make_token(NewToken(name="attack", scopes=scopes, user=user), at=clock.now(), actor=COMMAND)[1]


def _token_of_one_who_may() -> str:
    """Of an administrator; the scheduler that reports is connected."""
    from apps.accounts.actor import COMMAND
    from apps.accounts.models import User
    from apps.accounts.services import NewToken, make_token
    from apps.contrib.schedulers.services import connect_scheduler

    settings = {"kind": "slurm", "namespace": ""}
    connect_scheduler(policy_slug=SLUG, name=SCHEDULER, settings=settings, at=clock.now(), actor=COMMAND)
    user = User.objects.get(username="bench")
    scopes = ["policies:write", "policies:read", "schedulers"]
    return make_token(NewToken(name="uploads", scopes=scopes, user=user), at=clock.now(), actor=COMMAND)[1]


def _beside(attack: Attack, port: int, request: bytes, token: str) -> BenchLine:
    ask(port, request)  # the token is known, the snapshot is there
    cpu_s, rss_mb = _used()
    n_sent = multiprocessing.get_context("spawn").Value("i", 0)
    senders = multiprocessing.get_context("spawn").Process(target=_send, args=(port, attack, token, n_sent))
    senders.start()
    seconds, most_mb, until = [], rss_mb, time.monotonic() + SECONDS
    while time.monotonic() < until or (attack.body and n_sent.value == 0):
        began = time.monotonic()
        answer = ask(port, request)
        seconds.append(time.monotonic() - began)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        most_mb = max(most_mb, _used()[1])
    senders.terminate()
    senders.join()
    time.sleep(1.0)
    seconds.sort()
    p50, p99 = (seconds[int(len(seconds) * part)] for part in (0.5, 0.99))
    used_s, after_mb = _used()
    detail = (
        f"p99 {p99 * 1e3:.0f} ms, p50 {p50 * 1e3:.1f} ms, most {seconds[-1] * 1e3:.0f} ms; {n_sent.value} bodies, "
        f"{(used_s - cpu_s) / max(n_sent.value, 1):.3f} s of CPU each with the look-ups beside; memory "
        f"{rss_mb:.0f} MB, at most {most_mb:.0f}, then {after_mb:.0f}"
    )
    return BenchLine(f"look-up p99 beside {GOAL_S * 1e3:.0f} ms: {attack.name}", p99 / GOAL_S, 1.0, detail)


def _used() -> tuple[float, float]:
    """CPU seconds and resident MB of the web server: of all that this process has started but the senders."""
    parents, usages = {os.getpid()}, []
    stats = [_stat(path) for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name))]
    for pid, parent, is_server, cpu_s, rss_mb in filter(None, stats):
        if parent in parents:
            parents.add(pid)
            if is_server:
                usages.append((cpu_s, rss_mb))
    return sum(cpu_s for cpu_s, _ in usages), sum(rss_mb for _, rss_mb in usages)


def _stat(path: Path) -> tuple[int, int, bool, float, float] | None:
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        is_server = b"granian" in (path / "cmdline").read_bytes()
    except OSError:
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return int(path.name), int(fields[1]), is_server, cpu_s, int(fields[21]) * _PAGE_KB / 1024


def _send(port: int, attack: Attack, token: str, n_sent: multiprocessing.sharedctypes.Synchronized[int]) -> None:
    """Until it is ended."""
    head = (
        f"{attack.method} {attack.path} HTTP/1.1{HOST}Authorization: Bearer {token}\r\n{attack.headers}"
        f"Content-Length: {len(attack.body)}\r\nConnection: close\r\n\r\n"
    ).encode()

    def go_on() -> None:
        while True:
            with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
                try:
                    connection.sendall(head + attack.body)
                    answer = connection.recv(65536)
                    while connection.recv(1 << 20):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    answer = b""  # refused by its length: the server closed before it read the body
            expected = b"HTTP/1.1 2" if attack.is_accepted else b"HTTP/1.1 4"
            assert answer[:10] in (b"", expected), answer[:300]
            with n_sent.get_lock():
                n_sent.value += 1

    for _ in range(0 if not attack.body else 1 if attack.is_accepted else N_CONNECTIONS):
        threading.Thread(target=go_on, daemon=True).start()
    threading.Event().wait()
