"""Thirty receivers that answer a byte at a time: recomputes go on, and others' webhooks are called meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.notices import webhook_calls, webhooks
from apps.contrib.notices.models import Delivery, Webhook
from apps.contrib.notices.places import Place
from apps.contrib.notices.webhook_calls import call_due
from apps.core.errors import TooOften
from apps.core.outbound import Limits
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.runs import services
from apps.runs.models import Run
from apps.runs.services import work_due_runs, work_run
from tests.contrib.notices.test_webhooks import Receiver, receiver  # noqa: F401 - fixture
from tests.instants import AT
from tests.slow_server import SlowServer
from tests.small_site import Site, build_site

N_SLOW = 30


@pytest.fixture
def slow(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowServer]:
    found = SlowServer()
    settings.FAIRSHARE_OUTBOUND_ALLOW = [found.url.removeprefix("http://").rstrip("/")]
    monkeypatch.setattr(webhook_calls, "LIMITS", Limits(n_bytes=64 * 1024, total_s=1.0))  # ten in production
    yield found
    found.stop()


def thirty_tests(site: Site, user: User, url: str) -> None:
    for n in range(N_SLOW):
        webhook, _ = webhooks.make_webhook(
            name=f"Slow {n}", url=url, place=Place(), kinds=(), at=AT, actor=Actor(user=user, via="page")
        )
        Delivery.objects.create(webhook=webhook, event="test", news_at=AT, due_at=AT, created_at=AT)


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
def test_thirty_slow_receivers_hold_up_no_recompute(transactional_db: None, slow: SlowServer) -> None:
    thirty_tests(build_site(AT), User.objects.get(username="admin"), slow.url)
    Run.objects.all().delete()
    webhook_calls.request_calls(at=AT)
    calls = Run.objects.get(kind=webhooks.RUN_KIND)

    def work() -> None:
        try:
            work_run(calls.pk, calls.kind, clock=lambda: AT)
        finally:
            connections.close_all()

    outgoing = threading.Thread(target=work)
    outgoing.start()
    while slow.n_open < webhook_calls.MOST_CALLS_OF_OWNER:
        time.sleep(0.01)
    states = []
    for _tick in range(3):
        recompute = queue_recompute(Policy.objects.get(slug="grid"), at=AT)
        assert work_due_runs(clock=lambda: AT) == 1
        recompute.refresh_from_db()
        calls.refresh_from_db()
        states.append((recompute.state, calls.state))
    assert states[0] == ("succeeded", "running")
    with connection.cursor() as cursor:  # nothing is held open while servers are waited for
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'"
            " AND xact_start < clock_timestamp() - interval '0.5 seconds'"
        )
        assert cursor.fetchone() == (0,)
    outgoing.join(120)
    assert set(Delivery.objects.values_list("state", "attempts")) == {("failed", 1)}
    assert slow.n_accepted == N_SLOW


@pytest.mark.django_db
def test_the_runs_of_other_workers_come_first_for_a_worker_that_does_both(computed: Site, slow: SlowServer) -> None:
    thirty_tests(computed, computed.admin, slow.url)
    webhook_calls.request_calls(at=AT)
    queue_recompute(computed.policy, at=AT)
    first = services.claim_run(at=AT)
    assert first is not None
    assert Run.objects.get(pk=first.run_id).kind == "recompute"
    second = services.claim_run(at=AT)
    assert second is not None
    assert Run.objects.get(pk=second.run_id).kind == webhooks.RUN_KIND


@pytest.mark.django_db
def test_a_run_of_calls_ends_soon_and_others_are_called_meanwhile(
    computed: Site,
    slow: SlowServer,
    receiver: Receiver,  # noqa: F811 - the fixture's value
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> None:
    settings.FAIRSHARE_OUTBOUND_ALLOW = [urlsplit(each.url).netloc for each in (slow, receiver)]
    monkeypatch.setattr(webhook_calls, "LONGEST_WEBHOOK_RUN_S", 1.5)
    thirty_tests(computed, computed.admin, slow.url)
    other = User.objects.create_user("other", is_superuser=True)
    webhook, _ = webhooks.make_webhook(
        name="Other", url=receiver.url, place=Place(), kinds=(), at=AT, actor=Actor(user=other, via="page")
    )
    last = Delivery.objects.create(webhook=webhook, event="test", news_at=AT, due_at=AT, created_at=AT)
    assert call_due(at=AT) == 1
    last.refresh_from_db()
    assert last.state == "sent"
    assert 0 < slow.n_accepted < N_SLOW
    assert Delivery.objects.filter(state="waiting", due_at=AT).count() == N_SLOW - slow.n_accepted


@pytest.mark.django_db
def test_tests_are_limited_by_person(computed: Site, slow: SlowServer) -> None:
    thirty_tests(computed, computed.admin, slow.url)
    Delivery.objects.all().delete()
    actor = Actor(user=computed.admin, via="page")
    ids = list(Webhook.objects.values_list("pk", flat=True))
    for id in ids[: webhooks.MOST_TESTS]:
        webhooks.send_test(id=id, at=AT, actor=actor)
    with pytest.raises(TooOften, match="wait a moment"):
        webhooks.send_test(id=ids[-1], at=AT, actor=actor)
    webhooks.send_test(id=ids[-1], at=AT + webhooks.TESTED_WITHIN, actor=actor)
