"""Webhook calls: creates deliveries for news, and sends each until it is accepted or abandoned.

A delivery is unique by webhook, notice and news, and is sent while its lock is held. A worker that dies after the call
and before the result is stored calls again with the same `id`; receivers that ignore known ids process each once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.sign_in.sealing import unseal
from apps.core.errors import DomainError
from apps.core.outbound import Limits, Resolve, fetch
from apps.notices.kinds import is_visible, kinds
from apps.notices.kinds.base import Sentence
from apps.notices.mail import address
from apps.notices.models import Delivery, Notice, Webhook
from apps.notices.rules import Place, may_set
from apps.notices.visibility import Reader
from apps.notices.webhooks import PURPOSE, drop_waiting, host_of
from apps.policies.tree.stored import load_tree
from apps.runs.leases import Lease
from apps.runs.models import Run

logger = logging.getLogger(__name__)

RETRY_AFTER = (timedelta(seconds=30), timedelta(minutes=5), timedelta(minutes=30))
JITTER = (0.5, 1.5)  # factor of the wait, so that simultaneous failures aren't retried simultaneously
MOST_FAILED = 5  # abandoned deliveries in a row after which a webhook is turned off
MOST_AT_ONCE = 100
LIMITS = Limits(n_bytes=64 * 1024, total_s=10.0, redirects=0)
_LATE = timedelta(minutes=15)  # evaluations that started earlier may be committed later
_KEPT = timedelta(days=30)
Event, State = Delivery.Event, Delivery.State
Jitter = Callable[[float, float], float]


def run_calls(run: Run, lease: Lease) -> dict[str, Any]:
    """Work a run that a test delivery requested, like the scheduled task."""
    return {"sent": call_due(at=lease.clock())}


def plan_deliveries(*, at: datetime) -> int:
    """Create deliveries; returns how many. A webhook whose owner lost the permission is turned off."""
    Delivery.objects.filter(ended_at__lt=at - _KEPT).delete()
    n_planned = 0
    for id in Webhook.objects.filter(is_on=True).values_list("pk", flat=True):
        with transaction.atomic():
            found = Webhook.objects.select_for_update(of=("self",), skip_locked=True, no_key=True).select_related(
                "policy", "owner"
            )
            webhook = found.filter(pk=id, is_on=True).first()
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


def call_due(*, at: datetime, resolve: Resolve | None = None, jitter: Jitter = random.uniform) -> int:
    """Send due deliveries; returns how many were accepted. One attempt per webhook that doesn't respond."""
    n_sent = 0
    silent: set[int] = set()
    for _n in range(MOST_AT_ONCE):
        with transaction.atomic():
            due = Delivery.objects.select_for_update(of=("self",), skip_locked=True, no_key=True).select_related(
                "webhook__policy", "webhook__owner", "notice__policy", "notice__source"
            )
            due = due.filter(state=State.WAITING, due_at__lte=at).exclude(webhook__in=silent)
            delivery = due.order_by("due_at", "pk").first()
            if delivery is None:
                break
            if not _call(delivery, at, resolve, jitter):
                silent.add(delivery.webhook_id)
            n_sent += delivery.state == State.SENT
            delivery.save()
    return n_sent


def _call(delivery: Delivery, at: datetime, resolve: Resolve | None, jitter: Jitter) -> bool:
    """Send one delivery, or drop it; False if the webhook didn't accept it. The caller stores the row."""
    webhook = delivery.webhook
    if not _is_still_wanted(delivery, at):
        delivery.state, delivery.ended_at = State.DROPPED, at
        return True
    try:
        body = body_of(delivery, at)
        headers = signature_headers(unseal(PURPOSE, webhook.secret), delivery, body, at)
        answer = fetch(webhook.url, method="POST", headers=headers, body=body, limits=LIMITS, resolve=resolve)
        delivery.status = answer.status
        problem = "" if 200 <= answer.status < 300 else f"It answered with status {answer.status}."
    except DomainError as error:
        delivery.status, problem = None, error.message
    delivery.attempts += 1
    delivery.error = problem[:256]
    if not problem:
        delivery.state, delivery.ended_at = State.SENT, at
        Webhook.objects.filter(pk=webhook.pk).update(n_failed=0)
        return True
    _failed(delivery, at, jitter)
    return False


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
    webhook = (
        Webhook.objects.select_for_update(of=("self",), no_key=True)
        .select_related("policy")
        .get(pk=delivery.webhook_id)
    )
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
    """Headers with the HMAC-SHA256 of "<timestamp>.<body>" under the secret; the timestamp is of the attempt."""
    timestamp = str(int(at.timestamp()))
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "fairshare-webhook/1",
        "Fairshare-Id": str(delivery.uid),
        "Fairshare-Timestamp": timestamp,
        "Fairshare-Signature": f"v1={digest}",
    }


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
    kind = kinds().get(notice.kind)  # None if its package was uninstalled
    sentence = Sentence(notice.kind, notice.facts, notice.kind) if kind is None else kind.describe(notice.facts)
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
        "url": address("/notices/") if urlsplit(settings.FAIRSHARE_URL).scheme else None,
    }


def _text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
