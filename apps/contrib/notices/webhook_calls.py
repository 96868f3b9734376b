"""Webhook calls: creates deliveries for news, and sends each until it is accepted or abandoned.

A delivery is unique by webhook, notice and news. A worker reserves it, calls without a transaction, and stores the
result. If it dies in between, another calls again two minutes later with the same `id`; receivers that ignore known ids
process each once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.clock_watch import believed
from apps.accounts.sign_in.sealing import unseal
from apps.contrib.notices.kinds import is_visible, kind_of
from apps.contrib.notices.mail import address
from apps.contrib.notices.models import Delivery, Notice, Webhook
from apps.contrib.notices.places import Place, may_set
from apps.contrib.notices.visibility import Reader
from apps.contrib.notices.webhooks import PURPOSE, RUN_KIND, SECRET_PREFIX, drop_waiting, host_of, standard_secret
from apps.core.addresses import split_address
from apps.core.errors import DomainError
from apps.core.outbound import Limits, Resolve, fetch
from apps.policies.tree.stored import load_tree
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run

RETRY_AFTER = (timedelta(seconds=30), timedelta(minutes=5), timedelta(minutes=30))
JITTER = (0.5, 1.5)  # factor of the wait, so that simultaneous failures aren't retried simultaneously
MOST_FAILED = 5  # abandoned deliveries in a row after which a webhook is turned off
MOST_CALLS_OF_RUN = 100
LONGEST_WEBHOOK_RUN_S = 10.0  # for which a run begins calls
MOST_PARALLEL = 16
MOST_CALLS_OF_OWNER = 4  # calls at once to webhooks of one owner
UNDER_WAY = timedelta(minutes=2)  # for which a delivery is left to the worker that calls
LIMITS = Limits(n_bytes=64 * 1024, total_s=10.0, redirects=0)
_LATE = timedelta(minutes=15)  # evaluations that started earlier may be committed later
_KEPT = timedelta(days=30)
Event, State = Delivery.Event, Delivery.State
Jitter = Callable[[float, float], float]


def run_calls(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `notice_calls`. What the limits of one run leave is sent by the next."""
    began_at = lease.clock()
    result = {"sent": call_due(at=began_at)}
    left = Delivery.objects.filter(state=State.WAITING, due_at__lte=began_at, attempts=0)
    if left.exclude(
        webhook__in=Delivery.objects.filter(attempts__gt=0, state=State.WAITING).values("webhook")
    ).exists():
        enqueue_run(kind=RUN_KIND, subject="site", at=lease.clock())
    return result


def plan_deliveries(*, at: datetime) -> int:
    """Create deliveries; returns how many. A webhook whose owner lost the permission is turned off."""
    Delivery.objects.filter(ended_at__lt=believed(at) - _KEPT).delete()
    n_planned = 0
    for id in Webhook.objects.filter(is_on=True).values_list("pk", flat=True):
        with transaction.atomic():
            webhooks = Webhook.objects.select_for_update(of=("self",), skip_locked=True, no_key=True).select_related(
                "policy", "owner"
            )
            webhook = webhooks.filter(pk=id, is_on=True).first()
            if webhook is None:
                continue
            if not may_send(webhook, at):
                turn_off(webhook, "Its owner may not do this there any more.", at)
                continue
            n_planned += _plan(webhook, at)
            webhook.queued_until = max(at, webhook.queued_until)
            webhook.save(update_fields=["queued_until"])
    return n_planned


def may_send(webhook: Webhook, at: datetime) -> bool:
    place = Place(policy=webhook.policy, entry_uid=webhook.entry_uid)
    return webhook.owner.is_active and may_set(place, at, owner_of(webhook))


def owner_of(webhook: Webhook) -> Actor:
    return Actor(user=webhook.owner, via="worker")


def _plan(webhook: Webhook, at: datetime) -> int:
    since_at = max(webhook.queued_until - _LATE, webhook.created_at)
    known = set(webhook.deliveries.filter(notice__isnull=False).values_list("notice_id", "event", "news_at"))
    rows = []
    for notice, event, news_at in _news(webhook, since_at, at):
        if (notice.pk, event, news_at) not in known:
            rows.append(
                Delivery(webhook=webhook, notice=notice, event=event, news_at=news_at, due_at=at, created_at=at)
            )
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _news(webhook: Webhook, since_at: datetime, at: datetime) -> Iterator[tuple[Notice, str, datetime]]:
    """Notices that opened or became worse; closed ones if their opening was sent."""
    notices = Notice.objects.select_related("policy", "source").order_by("pk")
    changed = notices.filter(Q(news_at__gt=since_at) | Q(closed_at__gt=since_at))
    sent = set(webhook.deliveries.filter(event=Event.OPENED, state=State.SENT).values_list("notice_id", flat=True))
    reader = Reader(owner_of(webhook), at)
    for notice in changed:
        if not is_wanted(webhook, notice, reader):
            continue
        if notice.closed_at is None:
            yield notice, Event.OPENED, notice.news_at
        elif notice.pk in sent:
            yield notice, Event.CLOSED, notice.closed_at


def is_wanted(webhook: Webhook, notice: Notice, reader: Reader) -> bool:
    """Whether the notice is of the webhook's kinds, at its entry or below, and visible to its owner."""
    if webhook.kinds and notice.kind not in webhook.kinds:
        return False
    if webhook.policy is not None:
        if notice.policy_id != webhook.policy.pk:
            return False
        if webhook.entry_uid is not None and not _is_below(webhook, notice):
            return False
    return is_visible(reader, notice)


def _is_below(webhook: Webhook, notice: Notice) -> bool:
    if webhook.policy is None or webhook.entry_uid is None or notice.entry_uid is None:
        return False
    tree = load_tree(webhook.policy)
    top, i = tree.index_of_uid(webhook.entry_uid), tree.index_of_uid(notice.entry_uid)
    return top is not None and i is not None and (i == top or top in tree.ancestors(i))


@dataclass(frozen=True, slots=True)
class _Call:
    """A prepared request, which a thread without a database connection can send."""

    delivery: Delivery
    headers: Mapping[str, str]
    body: bytes

    def ask(self, resolve: Resolve | None) -> tuple[int | None, str]:
        """The status of the answer, and what is wrong with it or "" if it was accepted."""
        url = self.delivery.webhook.url
        try:
            answer = fetch(url, method="POST", headers=self.headers, body=self.body, limits=LIMITS, resolve=resolve)
        except DomainError as error:
            return None, error.message
        problem = "" if 200 <= answer.status < 300 else f"It answered with status {answer.status}."
        return answer.status, problem


def request_calls(*, at: datetime) -> None:
    """Start a run if a delivery is due."""
    if Delivery.objects.filter(state=State.WAITING, due_at__lte=at).exists():
        enqueue_run(kind=RUN_KIND, subject="site", at=at)


def call_due(*, at: datetime, resolve: Resolve | None = None, jitter: Jitter = random.uniform) -> int:
    """Send due deliveries; returns how many were accepted. One attempt per webhook that doesn't respond.

    Several are sent at once, few of one owner, and each without a transaction. New ones are begun for
    LONGEST_WEBHOOK_RUN_S, so that with the deadline of a call this ends soon whatever the receivers do.
    """
    n_sent = n_begun = 0
    silent: set[int] = set()
    under_way: dict[Future[tuple[int | None, str]], _Call] = {}
    began_s = time.monotonic()
    with ThreadPoolExecutor(MOST_PARALLEL, thread_name_prefix="webhook") as pool:
        while True:
            while (
                n_begun < MOST_CALLS_OF_RUN
                and len(under_way) < MOST_PARALLEL
                and time.monotonic() - began_s < LONGEST_WEBHOOK_RUN_S
            ):
                call = _take_next(at, silent, [each.delivery for each in under_way.values()])
                if call is None:
                    break
                n_begun += 1
                under_way[pool.submit(call.ask, resolve)] = call
            if not under_way:
                return n_sent
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                call = under_way.pop(future)
                is_accepted = _store(call.delivery.pk, *future.result(), at, jitter)
                n_sent += is_accepted
                if not is_accepted:
                    silent.add(call.delivery.webhook_id)


def _take_next(at: datetime, silent: set[int], under_way: Sequence[Delivery]) -> _Call | None:
    """The next due delivery, which others leave alone until its call must have ended. Unwanted ones are dropped."""
    owners = Counter(each.webhook.owner_id for each in under_way)
    busy = {each.webhook_id for each in under_way} | silent
    while True:
        with transaction.atomic():
            due = Delivery.objects.select_for_update(of=("self",), skip_locked=True, no_key=True).select_related(
                "webhook__policy", "webhook__owner", "notice__policy", "notice__source"
            )
            due = due.filter(state=State.WAITING, due_at__lte=at).exclude(webhook__in=busy)
            due = due.exclude(webhook__owner__in=[owner for owner, n in owners.items() if n >= MOST_CALLS_OF_OWNER])
            delivery = due.order_by("due_at", "pk").first()
            if delivery is None:
                return None
            if not _is_still_wanted(delivery, at):
                delivery.state, delivery.ended_at = State.DROPPED, at
                delivery.save(update_fields=["state", "ended_at"])
                continue
            delivery.due_at = at + UNDER_WAY
            delivery.save(update_fields=["due_at"])
        body = body_of(delivery, at)
        try:
            secret = standard_secret(unseal(PURPOSE, delivery.webhook.secret))
        except DomainError as error:
            _store(delivery.pk, None, error.message, at, random.uniform)
            continue
        return _Call(delivery, signature_headers(secret, delivery, body, at), body)


@transaction.atomic
def _store(delivery_id: int, status: int | None, problem: str, at: datetime, jitter: Jitter) -> bool:
    """Store the result of a call; False if the webhook didn't accept it.

    The webhook is locked first, as where it is changed, which cancels its deliveries.
    """
    webhook = Webhook.objects.select_for_update(no_key=True).filter(deliveries=delivery_id).first()
    if webhook is None:  # removed meanwhile
        return not problem
    deliveries = Delivery.objects.select_for_update(of=("self",), no_key=True).filter(
        pk=delivery_id, state=State.WAITING
    )
    delivery = deliveries.select_related("webhook__policy").first()
    if delivery is None:  # dropped meanwhile
        return not problem
    delivery.status, delivery.error = status, problem[:256]
    delivery.attempts += 1
    if problem:
        _failed(delivery, at, jitter)
    else:
        delivery.state, delivery.ended_at = State.SENT, at
        Webhook.objects.filter(pk=delivery.webhook_id).update(n_failed=0)
    delivery.save()
    return not problem


def _is_still_wanted(delivery: Delivery, at: datetime) -> bool:
    webhook = delivery.webhook
    if delivery.event == Event.TEST:
        return may_send(webhook, at)
    if not webhook.is_on or delivery.notice is None or not may_send(webhook, at):
        return False
    return is_wanted(webhook, delivery.notice, Reader(owner_of(webhook), at))


def _failed(delivery: Delivery, at: datetime, jitter: Jitter) -> None:
    """Schedule up to three more attempts; a test delivery has only one."""
    is_last = delivery.attempts > len(RETRY_AFTER) or delivery.event == Event.TEST
    if not is_last:
        delivery.due_at = at + RETRY_AFTER[delivery.attempts - 1] * jitter(*JITTER)
        return
    delivery.state, delivery.ended_at = State.FAILED, at
    if delivery.event == Event.TEST:
        return
    webhook = delivery.webhook
    webhook.n_failed += 1
    webhook.save(update_fields=["n_failed"])
    if webhook.n_failed >= MOST_FAILED and webhook.is_on:
        turn_off(webhook, f"{webhook.n_failed} deliveries in a row failed. Last error: {delivery.error}", at)


def turn_off(webhook: Webhook, because: str, at: datetime) -> None:
    """Turn a webhook off automatically; its owner and administrators get a notice."""
    webhook.is_on, webhook.off_because = False, because[:256]
    webhook.version += 1
    webhook.save(update_fields=["is_on", "off_because", "version"])
    drop_waiting(webhook, at)
    audit.record(
        actor=SYSTEM,
        verb="webhook.gave_up",
        at=at,
        policy_slug=webhook.policy.slug if webhook.policy else "",
        entry_uid=webhook.entry_uid,
        subject=webhook.name,
        reason=because,
        details={"webhook": webhook.pk, "host": host_of(webhook.url)},
    )


def signature_headers(secret: str, delivery: Delivery, body: bytes, at: datetime) -> dict[str, str]:
    """Headers of Standard Webhooks; the timestamp is of the attempt."""
    id, timestamp = str(delivery.uid), str(int(at.timestamp()))
    return {
        "Content-Type": "application/json",
        "User-Agent": "fairshare-webhook/1",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(secret, id, timestamp, body),
    }


def sign(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """`v1,` and the base64 of the HMAC-SHA256 of "<id>.<timestamp>.<body>", under the bytes that the secret encodes."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def body_of(delivery: Delivery, at: datetime) -> bytes:
    """JSON of the event and of the notice as the webhook's owner reads it."""
    payload: dict[str, Any] = {
        "id": str(delivery.uid),
        "event": f"notice.{delivery.event}" if delivery.notice else "test",
        "created_at": _text(delivery.created_at),
        "site": settings.FAIRSHARE_SITE,
    }
    if delivery.notice is not None:
        payload["notice"] = payload_of(delivery.notice)
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def payload_of(notice: Notice) -> dict[str, Any]:
    sentence = kind_of(notice.kind).describe(notice.facts)
    return {
        "id": notice.pk,
        "kind": notice.kind,
        "level": notice.level,
        "opened_at": _text(notice.opened_at),
        "closed_at": _text(notice.closed_at) if notice.closed_at else None,
        "policy": notice.policy.slug if notice.policy else None,
        "entry": str(notice.entry_uid) if notice.entry_uid else None,
        "source": notice.source.slug if notice.source else None,
        "sentence": {"key": sentence.key, "values": dict(sentence.values), "text": sentence.text},
        "url": address("/notices/") if split_address(settings.FAIRSHARE_URL).scheme else None,
    }


def _text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
