"""A day's records on three hosts, while each part is killed, cut off, off by two seconds, wiped, stopped, promoted.

The first half with Redis, the second with RabbitMQ. `FAIRSHARE_CLUSTER_SPEED` is how many times faster than the clock
the day passes.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster.hosts import DEADLINE_S, eventually, require_namespaces, running_hosts
from tests.cluster.parts import Broker, Cluster
from tests.cluster.traffic import BATCHES, SOURCES, Lookups, Sender, buckets_of, call, running, stored_buckets
from tests.databases import Databases

pytestmark = [pytest.mark.deep, pytest.mark.cluster, pytest.mark.timeout(1500)]
SPEED = float(os.environ.get("FAIRSHARE_CLUSTER_SPEED", "100"))
FAULTS = re.compile(os.environ.get("FAIRSHARE_CLUSTER_FAULTS", ""))  # only those with such a name
LINES = 20_000  # of a file
_SITE = """
import json
from apps.accounts.actor import COMMAND
from apps.accounts.services import NewToken, make_token, make_user
from apps.core import clock
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import Policy
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy, publish_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.usage.services import NewSource, make_source
at = clock.now()
robin, _password = make_user(
    username="robin", email="", password="a long enough secret", is_admin=True, actor=COMMAND
)
settings = PolicySettings()
make_policy(slug="grid", name="grid", details=PolicyDetails(visibility="tree"), settings=settings, at=at, actor=COMMAND)
groups = [
    {"name": f"g{g}", "shares": 1 + g,
     "children": [{"name": f"{s}-u{u}", "shares": 1} for s in ("c1", "c2") for u in range(g, 20, 5)]}
    for g in range(5)
]
document = {"policy": "grid", "settings": {}, "root": {"name": "grid", "shares": 1, "children": groups}}
publish_document(policy_slug="grid", document=document, reason="test", at=at, actor=COMMAND)
tree = load_tree(Policy.objects.get())
rule = Rule(kind="glob", suffix="/{group}/{user}", target_uid=tree.uuid(tree.index_of_path("/")))
set_rules(policy_slug="grid", rules=[rule], at=at, actor=COMMAND)
for slug in ("c1", "c2", "files"):
    make_source(NewSource(slug=slug, name=slug, namespace=slug), at=at, actor=COMMAND)
for scope in ("priorities:read", "usage:write", "policies:read", "admin"):
    print(make_token(NewToken(user=robin, name=scope, scopes=[scope], days=9), at=at, actor=COMMAND)[1])
"""
_IMPORT = """
import io
from pathlib import Path
from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.usage.services import NewImport, start_import
path = Path({path!r})
with path.open("rb") as file:
    start_import(NewImport(source_slug="files", format="swf", file=file, file_name=path.name),
        at=clock.now(), actor=COMMAND)
"""


class Site:
    """The cluster with what is sent to it and what has to be found in it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        self.day = now - timedelta(hours=26)
        self.n_files = 0
        self.recovered_s: list[tuple[str, float]] = []  # faults, and seconds until all worked again

    def begin(self) -> None:
        lookup, write, read, admin = self.cluster.manage("shell", "-v", "0", "-c", _SITE).split()
        self.lookups, self.read_token, self.admin_token = Lookups(lookup), read, admin
        self.senders = [Sender(source, write, self.day, SPEED) for source in SOURCES]

    def import_file(self) -> None:
        """A file of jobs of its own, as a run, which is at work when the fault comes."""
        self.n_files += 1
        path = self._folder / f"{self.n_files}.swf"
        begin = int((self.day - timedelta(days=self.n_files)).timestamp())
        head = f"; UnixStartTime: {begin}\n"
        rest = "-1 -1 -1 -1 -1"
        lines = (
            f"{n + 1} {n} 0 {n % 500 + 1} {n % 7 + 1} -1 -1 -1 -1 -1 1 {n % 50} {n % 5} {rest}" for n in range(LINES)
        )
        path.write_text(head + "\n".join(lines) + "\n")
        self.cluster.run(_IMPORT.format(path=str(path)))

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self.cluster.primary.connect() as connection:
            return connection.execute(statement).fetchall()

    def newest_valid_at(self) -> datetime:
        newest: datetime | None = self.ask("SELECT max(valid_at) FROM priorities_snapshot")[0][0]
        return newest or datetime.min.replace(tzinfo=UTC)

    def is_ready(self, host: str) -> bool:
        try:
            answer = json.loads(call(host, "/readyz", self.lookups.token, timeout_s=3))
        except OSError:
            return False
        codes = {each["code"] for each in answer["degraded"]}
        return not codes & {"workers_silent", "beat_silent", "replica_unused", "recompute_failed", "old_snapshot"}

    def why(self) -> str:
        """What a failed wait shows."""
        text = []
        for host in ("h1", "h2"):
            try:
                text.append(f"{host}: {call(host, '/readyz', self.lookups.token, timeout_s=5).decode()}")
            except OSError as error:
                text.append(f"{host}: {error}")
        with contextlib.suppress(psycopg.Error):
            runs = self.ask(
                "SELECT id, kind, state, attempts, due_at, lease_until, message, error FROM runs_run"
                " WHERE state <> 'succeeded' ORDER BY id DESC LIMIT 20"
            )
            text += [str(row) for row in runs]
        text += [f"{s.source}: {s.n_confirmed} confirmed, {s.n_failed} failed, {s.error!r}" for s in self.senders]
        return "\n".join([*text, self.cluster.logs()])

    def recover(self, name: str, healed_at: datetime) -> None:
        """Wait until all works again by itself: look-ups, records, recomputes, health."""
        begun = time.monotonic()
        for host in ("h1", "h2"):
            answers = partial(self.lookups.answers_at_once, host)
            eventually(answers, f"{name}: look-ups by {host}", DEADLINE_S, self.why)
        for sender in self.senders:
            eventually(partial(self._is_current, sender, begun), f"{name}: records", DEADLINE_S, self.why)
        eventually(lambda: self.newest_valid_at() > healed_at, f"{name}: a recompute", DEADLINE_S, self.why)
        for host in ("h1", "h2"):
            eventually(partial(self.is_ready, host), f"{name}: {host} is ready", DEADLINE_S, self.why)
        self.recovered_s.append((name, time.monotonic() - begun))
        print(f"  {name}: all works again after {time.monotonic() - begun:.1f} s", flush=True)

    def _is_current(self, sender: Sender, begun_s: float) -> bool:
        return self._is_done(sender) or sender.confirmed_s > begun_s

    def _is_done(self, sender: Sender) -> bool:
        assert sender.error is None, sender.error
        return sender.n_confirmed >= self.n_expected

    n_expected = 0

    def wait_confirmed(self, n: int = 2) -> None:
        """Until so many more batches were confirmed, or all have been."""
        before = [sender.n_confirmed for sender in self.senders]
        eventually(
            lambda: all(
                sender.n_confirmed >= one + n or self._is_done(sender)
                for sender, one in zip(self.senders, before, strict=True)
            ),
            f"{n} batches more",
            DEADLINE_S,
            self.why,
        )

    def wait_retried(self, n: int = 2) -> None:
        before = self.lookups.n_retried
        eventually(lambda: self.lookups.n_retried >= before + n, "look-ups are answered by the other host")


def faults(site: Site) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each with what it does; it returns when the cause is gone."""
    cluster, hosts = site.cluster, site.cluster.hosts
    broker = cluster.broker
    assert broker is not None
    for name in ("h1", "h2"):
        for role in ("web", "worker", "beat"):
            yield f"{role} of {name} killed", partial(hosts[name].kill, role)
    yield "pooler killed", lambda: hosts["h3"].kill("pgbouncer", program="pgbouncer")
    yield f"{broker.kind} killed", lambda: broker.kill(restart=True)
    yield f"{broker.kind} wiped", broker.wipe
    yield "replica killed", lambda: cluster.replica.kill(restart=True)
    yield "primary killed and restarted", lambda: cluster.primary.kill(restart=True)

    def stop_broker() -> None:
        broker.kill(restart=False)
        site.wait_confirmed()
        broker.restart()

    yield f"{broker.kind} stopped", stop_broker

    def cut(name: str, noticed: Callable[[], None]) -> Callable[[], None]:
        def do() -> None:
            hosts[name].cut()
            try:
                noticed()
            finally:
                hosts[name].heal()

        return do

    def unready() -> None:
        eventually(lambda: not site.is_ready("h1") and not site.is_ready("h2"), "no database is noticed")

    yield "h1 cut off, with the primary", cut("h1", site.wait_retried)
    yield "h2 cut off, with the replica", cut("h2", site.wait_retried)
    yield "h3 cut off, with pooler and broker", cut("h3", unready)

    def off_by(offset_s: int) -> Callable[[], None]:
        def do() -> None:
            hosts["h2"].set_clock(offset_s)
            site.wait_confirmed()
            hosts["h2"].set_clock(0)

        return do

    yield "clock of h2 two seconds ahead", off_by(2)
    yield "clock of h2 two seconds behind", off_by(-2)

    def fail_over() -> None:
        cluster.fail_over()
        site.wait_confirmed(1)
        cluster.rejoin()

    yield "PostgreSQL fails over to its replica", fail_over


@pytest.fixture(scope="module")
def site(databases: Databases) -> Iterator[Site]:
    """databases: those of the suite, whose schema is used."""
    require_namespaces()
    folder = Path(tempfile.mkdtemp(prefix="fairshare-cluster-"))
    folder.chmod(0o755)
    try:
        with running_hosts(folder) as hosts:
            cluster = Cluster(hosts, folder)
            cluster.make_database()
            cluster.broker = Broker("redis", hosts["h3"])
            cluster.broker.start()
            cluster.prepare()
            cluster.make_replica()
            made = Site(cluster, folder)
            made.begin()
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(("kind", "half"), [("redis", 0), ("rabbitmq", 1)])
@pytest.mark.fault("F10", "F25")
def test_half_a_day_with_every_fault(site: Site, kind: str, half: int) -> None:
    cluster = site.cluster
    if cluster.broker is None or cluster.broker.kind != kind:
        if cluster.broker is not None:
            cluster.broker.end()
        cluster.broker = Broker(kind, cluster.hosts["h3"])
        cluster.broker.start()
    batches = range(half * BATCHES // 2, (half + 1) * BATCHES // 2)
    site.n_expected += len(batches)
    for sender in site.senders:
        sender.confirmed_s = 0.0
    begun = time.monotonic()
    cluster.start_product()
    for host in ("h1", "h2"):
        eventually(partial(site.lookups.answers_at_once, host), f"the first look-up by {host}", 120, site.why)
    works = [partial(sender.send, batches) for sender in site.senders]
    with running(*works, site.lookups.ask) as threads:
        site.recover(f"start with {kind}", datetime.now(UTC))
        chosen = [fault for fault in faults(site) if FAULTS.search(fault[0])]
        for n, (name, do) in enumerate(chosen):
            site.lookups.during = name
            if n % 4 == 1:
                site.import_file()
            do()
            site.recover(name, datetime.now(UTC))
        site.lookups.during = "after all faults"
        for thread, sender in zip(threads, site.senders, strict=False):
            thread.join(1000)
            assert (sender.error, sender.n_confirmed) == (None, site.n_expected)
        eventually(
            lambda: not open_runs(site), "no run is left", DEADLINE_S, lambda: f"{open_runs(site)}\n{site.why()}"
        )
    print(f"  {time.monotonic() - begun:.0f} s, {site.lookups.n} look-ups, {site.lookups.n_retried} by the other host")
    assert site.lookups.unanswered == []
    check_records(site)
    check_runs(site)
    assert "unbroken" in cluster.manage("verify_audit")
    for host in ("h1", "h2"):
        for _attempt in range(3):
            call(host, "/api/v1/policies", site.read_token, timeout_s=10)
        text = call(host, "/metrics", site.lookups.token, timeout_s=10).decode()
        assert "fairshare_replica_used 1.0" in text
        assert 'fairshare_replica_reads_total{outcome="served"}' in text
    cluster.stop_product()


def open_runs(site: Site) -> list[tuple[Any, ...]]:
    """Imports, and what is due since long; recomputes come and go while beat rings."""
    return site.ask(
        "SELECT id, kind, state, due_at, attempts FROM runs_run WHERE state IN ('queued', 'running')"
        " AND (kind = 'usage_import' OR due_at < now() - interval '20 s')"
    )


def check_records(site: Site) -> None:
    """Each record is there once, and each bucket is the sum of what was sent."""
    sent = [job for sender in site.senders for job in sender.sent]
    audits = [json.loads(line) for line in site.cluster.manage("check_usage", "--json").splitlines()]
    n_of_source = {each["source"]: each["n_records"] for each in audits}
    wanted = {source: sum(job.source == source for job in sent) for source in SOURCES}
    assert n_of_source == {**wanted, "files": site.n_files * LINES}
    assert sum(each["n_different"] for each in audits) == 0
    times = {"from": site.day, "to": site.day + timedelta(hours=25)}
    query = "&".join(f"{name}={at:%Y-%m-%dT%H:%M:%SZ}" for name, at in times.items())
    text = call("h1", f"/api/v1/usage/buckets?format=csv&{query}", site.admin_token, timeout_s=60).decode()
    assert stored_buckets(list(csv.DictReader(io.StringIO(text)))) == buckets_of(sent)


def check_runs(site: Site) -> None:
    """None is lost, none has failed, and no import was done twice."""
    failed = site.ask(
        "SELECT id, kind, state, message, error FROM runs_run"
        " WHERE state = 'failed' OR state = 'cancelled' AND message <> 'A newer run replaces it.'"
    )
    assert failed == []
    imports = site.ask("SELECT state, result->>'new', result->>'duplicate' FROM runs_run WHERE kind = 'usage_import'")
    assert imports == [("succeeded", str(LINES), "0")] * site.n_files
