"""Webhooks against a real server on this machine: signed, retried, abandoned, and never to a forbidden address."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.accounts.sign_in.sealing import seal, unseal
from apps.contrib.notices import webhook_calls, webhooks
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Delivery, Notice, Webhook
from apps.contrib.notices.places import Place
from apps.contrib.notices.webhook_calls import MOST_FAILED, UNDER_WAY, call_due, plan_deliveries
from apps.contrib.notices.webhooks import make_webhook, send_test
from apps.core.errors import Invalid, NotAllowed, NotFound, Unavailable
from apps.policies.models import Grant
from apps.runs.models import Run
from apps.usage.models import Source
from tests.contrib.notices.notices_site import give_core_hours
from tests.core.hostile_addresses import NAMES, URLS
from tests.instants import AT
from tests.small_site import Site

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Receiver:
    """A server that stores requests and answers as set."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        self.headers: dict[str, str] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.seen.append((dict(self.headers), body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_given: Any) -> None:
                """Nothing: tests say what matters."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.place}/in"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def notified(self, at: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.seen[at][1])
        return found


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    made = Receiver()
    settings.FAIRSHARE_OUTBOUND_ALLOW = [made.place]
    yield made
    made.server.shutdown()
    made.server.server_close()


def page(user: Any) -> Actor:
    return Actor(user=user, via="page")


def make(site: Site, url: str, *, user: Any = None, place: Place | None = None, kinds: Any = ()) -> tuple[Webhook, str]:
    who = page(user or site.admin)
    return make_webhook(name="Chat", url=url, place=place or Place(), kinds=kinds, at=AT, actor=who)


def late() -> None:
    Source.objects.update(expected_every_s=3600, last_received_at=AT - 9 * HOUR)


def deliver(at: Any) -> int:
    plan_deliveries(at=at)
    return call_due(at=at, jitter=lambda _low, _high: 1.0)


def test_opened_and_closed_notices_are_delivered_once_and_signed(computed: Site, receiver: Receiver) -> None:
    _, secret = make(computed, receiver.url)
    late()
    evaluate(at=AT + HOUR)
    assert deliver(AT + HOUR) == 1
    assert deliver(AT + HOUR) == 0
    headers, body = receiver.seen[0]
    timestamp = headers["webhook-timestamp"]
    assert timestamp == str(int((AT + HOUR).timestamp()))
    notified = receiver.notified()
    assert headers["webhook-id"] == notified["id"]
    assert secret.startswith("whsec_")
    key, signed = base64.b64decode(secret[6:]), f"{notified['id']}.{timestamp}.".encode() + body
    assert len(key) == 32
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert (notified["event"], notified["notice"]["kind"], notified["notice"]["source"]) == (
        "notice.opened",
        "late_source",
        "cluster-a",
    )
    assert notified["notice"]["sentence"]["key"] == "late_source.late"
    Source.objects.update(last_received_at=AT + 2 * HOUR)
    evaluate(at=AT + 2 * HOUR)
    assert deliver(AT + 2 * HOUR) == 1
    assert receiver.notified()["event"] == "notice.closed"
    assert len({notified["id"] for notified in (receiver.notified(0), receiver.notified(1))}) == 2


def test_a_failed_delivery_is_retried_three_times_with_the_same_id(computed: Site, receiver: Receiver) -> None:
    make(computed, receiver.url)
    late()
    evaluate(at=AT)
    Notice.objects.update(news_at=AT + HOUR)
    receiver.status = 503
    plan_deliveries(at=AT + HOUR)
    at, waits = AT + HOUR, []
    for _n in range(4):
        call_due(at=at, jitter=lambda low, high: (low + high) / 2)
        due_at = Delivery.objects.get().due_at
        waits.append(due_at - at)
        call_due(at=due_at - timedelta(seconds=1))  # not before its time
        at = due_at
    found = Delivery.objects.get()
    assert [each / timedelta(seconds=1) for each in waits[:3]] == [30, 300, 1800]
    assert (found.state, found.attempts, found.status) == ("failed", 4, 503)
    assert found.error == "It answered with status 503."
    assert len({notified["webhook-id"] for notified, _body in receiver.seen}) == 1
    assert len({notified["webhook-timestamp"] for notified, _body in receiver.seen}) == 4


def test_jitter_spreads_retries(computed: Site, receiver: Receiver) -> None:
    make(computed, receiver.url)
    late()
    evaluate(at=AT + HOUR)
    receiver.status = 500
    plan_deliveries(at=AT + HOUR)
    asked: list[tuple[float, float]] = []

    def longest(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    call_due(at=AT + HOUR, jitter=longest)
    assert asked == [(0.5, 1.5)]
    assert Delivery.objects.get().due_at == AT + HOUR + timedelta(seconds=45)


def test_five_failed_deliveries_turn_the_webhook_off_with_the_reason(computed: Site, receiver: Receiver) -> None:
    webhook, _ = make(computed, receiver.url)
    receiver.status = 500
    for n in range(MOST_FAILED):
        Delivery.objects.create(
            webhook=webhook, event="opened", notice=_notice(n), news_at=AT, due_at=AT, created_at=AT, attempts=3
        )
    waiting = Delivery.objects.create(
        webhook=webhook, event="opened", notice=_notice(99), news_at=AT, due_at=AT + DAY, created_at=AT
    )
    for _n in range(MOST_FAILED):
        call_due(at=AT)
    webhook.refresh_from_db()
    waiting.refresh_from_db()
    assert not webhook.is_on
    assert str(MOST_FAILED) in webhook.off_because
    assert waiting.state == "dropped"
    assert AuditEvent.objects.filter(verb="webhook.gave_up", subject="Chat").exists()
    webhooks.switch_webhook(id=webhook.pk, version=webhook.version, is_on=True, at=AT, actor=page(computed.admin))
    assert Webhook.objects.get().off_because == ""


def _notice(n: int) -> Notice:
    facts = {"source": "A", "slug": "cluster-a", "hours": n, "is_never": False, "last_at": ""}
    return Notice.objects.create(
        kind="late_source", key=f"k{n}", level="warn", facts=facts, opened_at=AT, news_at=AT, changed_at=AT
    )


def test_a_success_resets_the_failures(computed: Site, receiver: Receiver) -> None:
    webhook, _ = make(computed, receiver.url)
    Webhook.objects.update(n_failed=4)
    Delivery.objects.create(webhook=webhook, event="opened", notice=_notice(1), news_at=AT, due_at=AT, created_at=AT)
    assert call_due(at=AT) == 1
    assert Webhook.objects.get().n_failed == 0


def test_a_worker_that_dies_after_a_delivery_repeats_it_with_the_same_id(
    computed: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook, _ = make(computed, receiver.url)
    Delivery.objects.create(webhook=webhook, event="opened", notice=_notice(1), news_at=AT, due_at=AT, created_at=AT)
    with monkeypatch.context() as patch:
        patch.setattr(webhook_calls, "_store", lambda *_given: (_ for _ in ()).throw(SystemExit()))
        with pytest.raises(SystemExit):
            call_due(at=AT)
    assert call_due(at=AT) == 0, "it may still be under way"
    assert call_due(at=AT + UNDER_WAY) == 1
    assert receiver.notified(0)["id"] == receiver.notified(1)["id"]
    assert call_due(at=AT + UNDER_WAY) == 0


def test_redirects_are_not_followed(computed: Site, receiver: Receiver) -> None:
    other = Receiver()
    receiver.status, receiver.headers = 307, {"Location": other.url}
    webhook, _ = make(computed, receiver.url)
    send_test(id=webhook.pk, at=AT, actor=page(computed.admin))
    call_due(at=AT)
    assert Delivery.objects.get().status == 307
    assert other.seen == []
    other.server.shutdown()
    other.server.server_close()


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a socket was asked to connect to; none is reached."""
    asked: list[Any] = []

    class Spy(socket.socket):
        def connect(self, address: Any) -> None:
            asked.append(address)
            raise ConnectionRefusedError("nothing leaves this machine in a test")

    monkeypatch.setattr("apps.core.outbound.socket.socket", Spy)
    return asked


def names(host: str, _port: int) -> list[str]:
    if host not in NAMES:
        raise socket.gaierror(host)
    return NAMES[host]


def test_no_socket_connects_to_a_forbidden_address(computed: Site, connects: list[Any]) -> None:
    """Neither when it is made, nor when it lay in the database already."""
    webhook, _ = make(computed, "https://hooks.example.org/")
    for url in URLS:
        try:
            make(computed, url)
        except Invalid:
            pass
        else:
            assert any(name in url for name in NAMES), url  # a name is resolved when it is called
        if len(url) > 2048:
            continue  # the database itself accepts none so long
        Webhook.objects.filter(pk=webhook.pk).update(url=url)
        Delivery.objects.all().delete()
        Webhook.objects.exclude(pk=webhook.pk).delete()
        delivery = Delivery.objects.create(webhook=webhook, event="test", news_at=AT, due_at=AT, created_at=AT)
        call_due(at=AT, resolve=names)
        delivery.refresh_from_db()
        assert delivery.state == "failed", url
    assert connects == []


def test_a_webhook_delivers_only_what_its_owner_may_see(computed: Site, receiver: Receiver) -> None:
    place = Place(policy=computed.policy, entry_uid=computed.uid("/physics"))
    make(computed, receiver.url, user=computed.pia, place=place)
    late()
    for path in ("/physics/bob", "/biology"):
        give_core_hours(computed, ends_on=(AT + 9 * DAY).date(), path=path)
    evaluate(at=AT + HOUR)
    deliver(AT + HOUR)
    assert [
        notified["notice"]["sentence"]["values"]["path"]
        for notified in map(receiver.notified, range(len(receiver.seen)))
    ] == ["/physics/bob"]


def test_a_webhook_is_turned_off_when_its_owner_loses_the_right(computed: Site, receiver: Receiver) -> None:
    place = Place(policy=computed.policy, entry_uid=computed.uid("/physics"))
    webhook, _ = make(computed, receiver.url, user=computed.pia, place=place)
    Delivery.objects.create(webhook=webhook, event="test", news_at=AT, due_at=AT, created_at=AT)
    Grant.objects.filter(user=computed.pia).delete()
    deliver(AT)
    assert receiver.seen == []
    turned_off = Webhook.objects.get()
    assert (turned_off.is_on, bool(turned_off.off_because)) == (False, True)


def test_only_selected_kinds_are_delivered(computed: Site, receiver: Receiver) -> None:
    make(computed, receiver.url, kinds=["over_budget"])
    late()
    evaluate(at=AT + HOUR)
    assert deliver(AT + HOUR) == 0


def test_a_test_delivery_runs_in_a_worker_with_one_attempt(computed: Site, receiver: Receiver) -> None:
    webhook, _ = make(computed, receiver.url)
    receiver.status = 500
    send_test(id=webhook.pk, at=AT, actor=page(computed.admin))
    assert Run.objects.filter(kind=webhooks.RUN_KIND, state="queued").exists()
    call_due(at=AT)
    found = Delivery.objects.get()
    assert (found.state, found.attempts) == ("failed", 1)
    assert receiver.notified()["event"] == "test"
    assert Webhook.objects.get().n_failed == 0


def test_entries_and_webhooks_of_others_are_not_accessible(computed: Site, receiver: Receiver) -> None:
    physics = Place(policy=computed.policy, entry_uid=computed.uid("/physics"))
    for user, place in (
        (computed.pia, Place()),
        (computed.pia, Place(policy=computed.policy)),
        (computed.ben, physics),
    ):
        with pytest.raises((NotAllowed, NotFound)):
            make(computed, receiver.url, user=user, place=place)
    webhook, _ = make(computed, receiver.url, user=computed.pia, place=physics)
    with pytest.raises(NotFound):
        webhooks.get_webhook(id=webhook.pk, at=AT, actor=page(computed.ben))
    assert webhooks.get_webhook(id=webhook.pk, at=AT, actor=page(computed.admin)).path == "/physics"


def test_others_stop_and_remove_a_webhook_and_neither_redirect_nor_read_it(computed: Site, receiver: Receiver) -> None:
    physics = Place(policy=computed.policy, entry_uid=computed.uid("/physics"))
    webhook, _ = make(computed, f"{receiver.url}/secret-path", user=computed.admin, place=physics)
    row: dict[str, Any] = {"id": webhook.pk, "version": 1, "at": AT, "actor": page(computed.pia)}
    for act in (
        lambda: webhooks.change_webhook(**row, name="Mine", url=receiver.url, kinds=[]),
        lambda: webhooks.renew_secret(**row),
        lambda: webhooks.switch_webhook(**row, is_on=True),
        lambda: webhooks.send_test(id=webhook.pk, at=AT, actor=page(computed.pia)),
    ):
        with pytest.raises(NotAllowed):
            act()
    pia = Client()
    pia.force_login(computed.pia, backend="django.contrib.auth.backends.ModelBackend")
    shown = pia.get(f"/notices/webhooks/{webhook.pk}/").content.decode()
    assert "secret-path" not in shown
    assert not webhooks.switch_webhook(**row, is_on=False).is_on
    webhooks.remove_webhook(**{**row, "version": 2})


def test_the_secret_is_encrypted_and_readable_with_older_keys(
    computed: Site, receiver: Receiver, settings: Any
) -> None:
    webhook, secret = make(computed, receiver.url)
    assert secret not in Webhook.objects.get().secret
    old = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "k" * 60, [old]
    assert unseal(webhooks.PURPOSE, webhook.secret) == secret
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Unavailable, match="SECRET_KEY_FALLBACKS"):
        unseal(webhooks.PURPOSE, webhook.secret)
    with pytest.raises(Unavailable):
        unseal("something else", seal(webhooks.PURPOSE, "x"))
    assert webhook_calls.JITTER == (0.5, 1.5)


def test_a_webhook_is_called_through_the_proxy(computed: Site, receiver: Receiver, squid: Any, settings: Any) -> None:
    settings.FAIRSHARE_OUTBOUND_ALLOW = []
    make(computed, squid.lead(receiver.server.server_port) + "/in")
    late()
    evaluate(at=AT + HOUR)
    assert deliver(AT + HOUR) == 1
    assert receiver.notified()["event"] == "notice.opened"
    assert squid.asked == ["CONNECT slurm.example.org:443 HTTP/1.1"]
