"""A day's records and look-ups, as a site sends them: again until they are confirmed, to the other host on failure."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.cluster.hosts import address
from tests.cluster.parts import WEB_PORT

BATCH = timedelta(minutes=10)
BATCHES = 144  # of a day
JOBS = 40  # of a batch of a source
SOURCES = ("c1", "c2")
POLICY = "grid"
N_GROUPS, N_USERS = 5, 20
_SEND_S = 20.0
_LOOKUP_S = (2.0, 5.0)  # of the first attempt and of the retry


class Refused(Exception):
    """An answer that no retry changes."""


def call(host: str, path: str, token: str, *, timeout_s: float, body: bytes | None = None, key: str = "") -> bytes:
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if key:
        headers["Idempotency-Key"] = key
    request = urllib.request.Request(f"http://{address(host)}:{WEB_PORT}{path}", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        if error.code < 500 and error.code not in (408, 429):
            raise Refused(f"{path}: {error.code} {text}") from error
        raise OSError(f"{error.code} {text}") from error
    except Exception as error:  # http.client has errors of its own for a connection that breaks
        raise OSError(str(error)) from error


@dataclass(frozen=True)
class Job:
    source: str
    number: str
    user: str
    group: str
    start_at: datetime
    run_s: int
    cpus: int

    def to_json(self) -> dict[str, Any]:
        times = {"submit": self.start_at, "start": self.start_at, "end": self.start_at + timedelta(seconds=self.run_s)}
        texts = {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in times.items()}
        return {"job": self.number, "user": self.user, "group": self.group, "cpus": self.cpus, **texts}


def jobs_of(source: str, batch: int, day: datetime) -> list[Job]:
    """Each within one hour, so that its bucket needs no rule to be known."""
    chosen = random.Random(f"{source} {batch}")
    begin = day + batch * BATCH
    jobs = []
    for i in range(JOBS):
        number = chosen.randrange(N_USERS)
        jobs.append(
            Job(
                source,
                f"{batch}.{i}",
                f"{source}-u{number}",
                f"g{number % N_GROUPS}",
                begin + timedelta(seconds=chosen.randrange(300)),
                chosen.randrange(1, 300),
                chosen.randrange(1, 9),
            )
        )
    return jobs


BucketKey = tuple[str, datetime, str, str]  # source, hour, user, group


def buckets_of(jobs: Sequence[Job]) -> dict[BucketKey, tuple[float, int]]:
    """Core-seconds and jobs by bucket, counted from what was sent."""
    cpu_s: Counter[BucketKey] = Counter()
    n_jobs: Counter[BucketKey] = Counter()
    for job in jobs:
        key = job.source, job.start_at.replace(minute=0, second=0), job.user, job.group
        cpu_s[key] += job.run_s * job.cpus
        n_jobs[key] += 1
    return {key: (float(cpu_s[key]), n_jobs[key]) for key in cpu_s}


@dataclass
class Sender:
    """Sends the batches of a source when they are due. c1 names each request by a key, c2 does not."""

    source: str
    token: str
    day: datetime
    speed: float
    sent: list[Job] = field(default_factory=list)
    confirmed_s: float = 0.0  # time.monotonic() of the beginning of the last request that was confirmed
    n_confirmed: int = 0
    n_failed: int = 0
    error: BaseException | None = None

    def send(self, batches: range, is_stopped: Callable[[], bool]) -> None:
        begin = time.monotonic()
        try:
            for n, batch in enumerate(batches):
                while time.monotonic() < begin + n * BATCH.total_seconds() / self.speed and not is_stopped():
                    time.sleep(0.05)
                jobs = jobs_of(self.source, batch, self.day)
                if not self._send_until_confirmed(batch, jobs, is_stopped):
                    return
                self.sent += jobs
                self.n_confirmed += 1
        except BaseException as error:
            self.error = error

    def _send_until_confirmed(self, batch: int, jobs: Sequence[Job], is_stopped: Callable[[], bool]) -> bool:
        body = json.dumps([job.to_json() for job in jobs]).encode()
        hosts = ["h1", "h2"] if self.source == "c1" else ["h2", "h1"]
        while not is_stopped():
            begun = time.monotonic()
            try:
                key = f"batch-{batch}" if self.source == "c1" else ""
                path = f"/api/v1/usage/records?source={self.source}&atomic=true"
                answer = json.loads(call(hosts[0], path, self.token, timeout_s=_SEND_S, body=body, key=key))
            except OSError:
                self.n_failed += 1
                hosts.reverse()
                time.sleep(0.2)
                continue
            assert not answer["rejected"], answer
            assert answer["new"] + answer["duplicate"] == len(jobs), answer
            self.confirmed_s = begun
            return True
        return False


@dataclass
class Lookups:
    """Each second one, with one retry at the other host, as an agent does."""

    token: str
    n: int = 0
    n_retried: int = 0
    unanswered: list[str] = field(default_factory=list)
    during: str = ""

    def ask(self, is_stopped: Callable[[], bool]) -> None:
        while not is_stopped():
            begun = time.monotonic()
            hosts = ["h1", "h2"] if self.n % 2 else ["h2", "h1"]
            self._ask_one(hosts)
            self.n += 1
            while time.monotonic() < begun + 1 and not is_stopped():
                time.sleep(0.05)

    def _ask_one(self, hosts: Sequence[str]) -> None:
        number = self.n % N_USERS
        path = f"/api/v1/policies/{POLICY}/priorities?account=c1-u{number}"
        problems: list[str] = []
        for host, timeout_s in zip(hosts, _LOOKUP_S, strict=True):
            try:
                answer = json.loads(call(host, path, self.token, timeout_s=timeout_s))
                assert answer["results"][0]["factor"] is not None, answer
                self.n_retried += bool(problems)
                return
            except (OSError, Refused, AssertionError) as error:
                problems.append(f"{host}: {error}")
        self.unanswered.append(f"{self.during}: {'; '.join(problems)}")

    def answers_at_once(self, host: str) -> bool:
        try:
            call(host, f"/api/v1/policies/{POLICY}/priorities?account=c1-u0", self.token, timeout_s=2)
        except (OSError, Refused):
            return False
        return True


@contextmanager
def running(*works: Callable[[Callable[[], bool]], None]) -> Iterator[list[threading.Thread]]:
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop.is_set,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def stored_buckets(rows: Sequence[Mapping[str, str]]) -> dict[BucketKey, tuple[float, int]]:
    """Of REST's table, for the sources that are pushed."""
    stored: dict[BucketKey, tuple[float, int]] = {}
    for row in rows:
        if row["source"] in SOURCES:
            key = row["source"], datetime.fromisoformat(row["at"]), row["user"], row["group"]
            cpu_s, n_jobs = stored.get(key, (0.0, 0))
            stored[key] = cpu_s + float(row["cpu_s"]), n_jobs + round(float(row["jobs"]))
    return stored
