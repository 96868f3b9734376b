"""Thirty peers or daemons that answer a byte at a time hold up nobody else's fetches and collections."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.db import connections
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.cli.stack import definitions
from apps.core.errors import TooOften
from apps.federation import fetch_requests
from apps.federation.fetch_schedule import MOST_FETCHES_OF_OWNER, request_fetch
from apps.federation.models import Mount
from apps.federation.mounts.services import preview
from apps.policies.models import Policy
from apps.runs import kinds, services
from apps.runs.models import Run
from apps.runs.queues import FEDERATION, kinds_on
from apps.runs.services import work_run
from apps.usage.models import Source
from apps.usage.sources.schedule import MOST_OF_HOST, enqueue_collection
from apps.usage.sources.services import set_up_source
from tests.instants import AT
from tests.slow_server import SlowServer
from tests.small_site import build_site

pytestmark = pytest.mark.django_db(transaction=True)

N_SLOW = 30
LONG_S = 60.0  # of which nothing is waited for: the slow server is stopped first


class QuickServer(ThreadingHTTPServer):
    """Answers everything with `{"jobs": []}`, and counts."""

    def __init__(self) -> None:
        self.n_asked = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.n_asked += 1
                body = b'{"jobs": []}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Silence."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class Callers:
    """The threads of the worker for other hosts, which do what messages ask, each once."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work) for _n in range(definitions._CALLERS)]
        for thread in self._threads:
            thread.start()

    def send(self, runs: list[tuple[int, str]], **_options: Any) -> None:
        for each in runs:
            self._messages.put(each)

    def _work(self) -> None:
        try:
            while (message := self._messages.get()) is not None:
                work_run(*message, clock=lambda: AT)
        finally:
            connections.close_all()

    def join(self) -> None:
        wait_until(lambda: not Run.objects.filter(state__in=("queued", "running")).exists())
        self.stop()

    def stop(self) -> None:
        for _thread in self._threads:
            self._messages.put(None)
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LONG_S / 2
    while not is_so():
        assert time.monotonic() < end_s, "it never happened"
        time.sleep(0.01)


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    server = SlowServer()
    yield server
    server.stop()


@pytest.fixture
def quick() -> Iterator[QuickServer]:
    with QuickServer() as server:
        yield server
        server.shutdown()


@pytest.fixture
def site(
    transactional_db: None,
    slow: SlowServer,
    quick: QuickServer,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Policy:
    settings.FAIRSHARE_OUTBOUND_ALLOW = [urlsplit(server.url).netloc for server in (slow, quick)]
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    monkeypatch.setattr(fetch_requests, "TOTAL_S", LONG_S)
    policy = build_site(AT).policy
    Run.objects.all().delete()
    return policy


@pytest.fixture
def callers(site: Policy, slow: SlowServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callers]:
    """Their messages are those that services send: of new runs, and of runs that others held back."""
    threads = Callers()
    monkeypatch.setattr(services, "send_runs", threads.send)
    monkeypatch.setattr(kinds, "consumed_queues", lambda: {FEDERATION})
    yield threads
    slow.stop()
    threads.stop()


def add_mount(policy: Policy, owner: User, url: str) -> Mount:
    return Mount.objects.create(
        policy=policy,
        entry_uid=uuid4(),
        url=url,
        issuer="peer.example",
        publication="p",
        fingerprint="0" * 64,
        made_by=owner,
        made_at=AT,
    )


def add_source(slug: str, url: str, folder: Path) -> Source:
    file = folder / slug
    file.write_text("token")
    file.chmod(0o600)
    terms = {"address": url.rstrip("/"), "version": "v0.0.38", "accounting": False, "timeout_s": int(LONG_S)}
    return set_up_source(slug=slug, new_settings={"kind": "slurm-rest", "collecting": terms}, at=AT, actor=COMMAND)


def others_are_served(policy: Policy, quick: QuickServer, folder: Path) -> None:
    """A fetch and a collection of another person, which are asked for last."""
    other = User.objects.create_user("other", is_superuser=True)
    fetch = request_fetch(add_mount(policy, other, quick.url), at=AT)
    collection = enqueue_collection(add_source("quick", quick.url, folder), at=AT)
    ended = Run.objects.filter(pk__in=(fetch.pk, collection.pk), state="succeeded")
    wait_until(lambda: ended.count() == 2)
    assert quick.n_asked == 2


@pytest.mark.fault("F22")
def test_thirty_slow_peers_of_one_person_hold_up_nobody_else(
    site: Policy, callers: Callers, slow: SlowServer, quick: QuickServer, tmp_path: Path
) -> None:
    admin = User.objects.get(username="admin")
    for _n in range(N_SLOW):
        request_fetch(add_mount(site, admin, slow.url), at=AT)
    wait_until(lambda: slow.n_open >= MOST_FETCHES_OF_OWNER)
    others_are_served(site, quick, tmp_path)
    assert slow.n_open == slow.n_accepted == MOST_FETCHES_OF_OWNER
    slow.stop()
    callers.join()


def test_thirty_sources_at_a_slow_daemon_hold_up_nobody_else(
    site: Policy, callers: Callers, slow: SlowServer, quick: QuickServer, tmp_path: Path
) -> None:
    for n in range(N_SLOW):
        enqueue_collection(add_source(f"slow-{n}", slow.url, tmp_path), at=AT)
    wait_until(lambda: slow.n_open >= MOST_OF_HOST)
    others_are_served(site, quick, tmp_path)
    assert slow.n_open == slow.n_accepted == MOST_OF_HOST
    slow.stop()
    wait_until(lambda: not Run.objects.filter(kind="usage_collect", state="running").exists())


def test_the_worker_for_other_hosts_has_a_thread_left_for_each_kind_of_call() -> None:
    from apps.runs.kinds import limits_of_threads

    limits = limits_of_threads()
    n_needed = sum(limits.get(kind, 1) for kind in kinds_on(FEDERATION))  # one of the site where no limit is named
    assert n_needed <= definitions._CALLERS


def test_a_person_waits_for_few_previews_at_once(site: Policy, slow: SlowServer, quick: QuickServer) -> None:
    """A preview holds a thread of the web server, and these are few."""
    admin = User.objects.get(username="admin")
    actor = Actor(user=admin, via="page")
    problems: list[Exception] = []

    def look() -> None:
        try:
            preview(url=slow.url, policy_slug=site.slug, at=AT, actor=actor)
        except Exception as error:
            problems.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=look) for _n in range(fetch_requests.MOST_PREVIEWS)]
    for thread in threads:
        thread.start()
    wait_until(lambda: slow.n_open == fetch_requests.MOST_PREVIEWS)
    with pytest.raises(TooOften, match="wait for their answers"):
        preview(url=slow.url, policy_slug=site.slug, at=AT, actor=actor)
    client = Client()
    client.force_login(admin)
    given = {"policy": site.slug, "url": slow.url}
    refused = client.post("/api/v1/federation/mounts/preview", given, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_previews")
    slow.stop()
    for thread in threads:
        thread.join(60)
    assert len(problems) == fetch_requests.MOST_PREVIEWS
    with pytest.raises(Exception, match=r"document"):  # the count went back
        preview(url=quick.url, policy_slug=site.slug, at=AT, actor=actor)


def test_a_run_that_is_asked_for_by_name_does_not_wait(
    site: Policy, slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = User.objects.get(username="admin")
    runs = [request_fetch(add_mount(site, admin, slow.url), at=AT) for _n in range(MOST_FETCHES_OF_OWNER + 1)]
    leases = [services.claim_run(at=AT) for _n in runs]
    assert [lease is None for lease in leases] == [False] * MOST_FETCHES_OF_OWNER + [True]
    (last,) = Run.objects.filter(state="queued")
    assert services.claim_run(at=AT, run_id=last.pk) is not None


def test_slow_hosts_share_the_limit_of_the_program_that_calls_them(tmp_path: Path, settings: Any) -> None:
    program = tmp_path / "sacct"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(program)]
    source = set_up_source(
        slug="cluster",
        new_settings={
            "kind": "command",
            "time_zone": "UTC",
            "collecting": {"command": [str(program)], "format": "auto"},
        },
        at=AT,
        actor=COMMAND,
    )
    assert enqueue_collection(source, at=AT).limit_key == f"program:{program}"
