"""Managing webhooks: create, change, test, turn on or off, remove. A secret is shown once.

A webhook sends what its owner may see, so it is the owner's alone: others who manage its place may turn it off and
remove it, and learn the host of its URL.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.sign_in.sealing import seal
from apps.contrib.notices.kinds import is_kind
from apps.contrib.notices.models import Delivery, Webhook
from apps.contrib.notices.places import Place, may_set, require_place
from apps.core.addresses import Refused, target_of
from apps.core.column_bounds import most_characters
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Stale, TooOften
from apps.policies.tree.stored import load_tree
from apps.runs.services import enqueue_run

SECRET_PREFIX = "whsec_"  # of Standard Webhooks: base64 of the key follows # noqa: S105 - no secret
PURPOSE = "webhook"
RUN_KIND = "notice_calls"
MOST_WEBHOOKS = 50  # webhooks of one owner
LOGGED = 50
MOST_TESTS, TESTED_WITHIN = 5, timedelta(minutes=1)  # of the webhooks of one owner


@dataclass(frozen=True, slots=True)
class WebhookLine:
    """path: "/" for a whole policy, "" for the site. host: the only part of the URL that other readers see."""

    webhook: Webhook
    host: str
    path: str


def list_webhooks(*, at: datetime, actor: Actor) -> list[WebhookLine]:
    """Webhooks at places where the actor may set rules, and the actor's own."""
    webhooks = Webhook.objects.select_related("policy", "owner").order_by("name", "pk")
    return [_line(each) for each in webhooks if _may_manage(each, at, actor)]


def get_webhook(*, id: int, at: datetime, actor: Actor) -> WebhookLine:
    webhook = Webhook.objects.select_related("policy", "owner").filter(pk=id).first() if 0 < id < 2**63 else None
    if webhook is None or not _may_manage(webhook, at, actor):
        raise NotFound(f"There is no webhook {id}.")
    return _line(webhook)


def list_deliveries(*, id: int, at: datetime, actor: Actor) -> list[Delivery]:
    """Deliveries with their results, newest first."""
    line = get_webhook(id=id, at=at, actor=actor)
    return list(line.webhook.deliveries.select_related("notice").order_by("-pk")[:LOGGED])


def make_webhook(
    *, name: str, url: str, place: Place, kinds: Sequence[str], at: datetime, actor: Actor
) -> tuple[Webhook, str]:
    """Create a webhook; returns it with its secret, which is not shown again.

    Raises:
        Invalid: a URL that this site doesn't connect to, or another wrong field.
        NotAllowed: an entry of another manager.
    """
    owner = actor.user
    if owner is None or actor.token is not None:
        raise NotAllowed("A webhook sends what its owner may see: sign in.", code="session_only")
    require_place(place, at, actor)
    values = _checked(name, url, kinds)
    secret = _new_secret()
    with transaction.atomic():
        if Webhook.objects.filter(owner=owner).count() >= MOST_WEBHOOKS:
            raise Conflict(f"You have {MOST_WEBHOOKS} webhooks, the most allowed: remove one first.")
        made = Webhook.objects.create(
            **values,
            secret=seal(PURPOSE, secret),
            policy=place.policy,
            entry_uid=place.entry_uid,
            owner=owner,
            queued_until=at,
            created_at=at,
        )
        _note("webhook.made", made, at, actor)
    return made, secret


def _new_secret() -> str:
    return f"{SECRET_PREFIX}{base64.b64encode(secrets.token_bytes(32)).decode()}"


def standard_secret(text: str) -> str:
    """A secret from before it had this form is the key itself: with the prefix its text is encoded."""
    return text if text.startswith(SECRET_PREFIX) else f"{SECRET_PREFIX}{base64.b64encode(text.encode()).decode()}"


def change_webhook(
    *, id: int, version: int, name: str, url: str, kinds: Sequence[str], at: datetime, actor: Actor
) -> Webhook:
    """Change name, URL or kinds, as the owner."""
    values = _checked(name, url, kinds)
    with transaction.atomic():
        webhook = _locked(id, version, at, actor)
        require_owner(webhook, actor)
        for field, value in values.items():
            setattr(webhook, field, value)
        _save(webhook)
        _note("webhook.changed", webhook, at, actor)
    return webhook


def switch_webhook(*, id: int, version: int, is_on: bool, at: datetime, actor: Actor) -> Webhook:
    """On, by the owner: events from now on are sent, not those of the time it was off. Off: waiting deliveries are
    cancelled.
    """
    with transaction.atomic():
        webhook = _locked(id, version, at, actor)
        if is_on:
            require_owner(webhook, actor)
        if webhook.is_on != is_on:
            webhook.is_on, webhook.off_because, webhook.n_failed, webhook.queued_until = is_on, "", 0, at
            _save(webhook)
            drop_waiting(webhook, at)
            _note("webhook.turned_on" if is_on else "webhook.turned_off", webhook, at, actor)
    return webhook


def renew_secret(*, id: int, version: int, at: datetime, actor: Actor) -> tuple[Webhook, str]:
    """Replace the secret, as the owner; returns the webhook with the new one."""
    secret = _new_secret()
    with transaction.atomic():
        webhook = _locked(id, version, at, actor)
        require_owner(webhook, actor)
        webhook.secret = seal(PURPOSE, secret)
        _save(webhook)
        _note("webhook.secret_renewed", webhook, at, actor)
    return webhook, secret


def remove_webhook(*, id: int, version: int, at: datetime, actor: Actor) -> None:
    with transaction.atomic():
        webhook = _locked(id, version, at, actor)
        _note("webhook.removed", webhook, at, actor)
        webhook.delete()


def send_test(*, id: int, at: datetime, actor: Actor) -> Delivery:
    """Send a test delivery immediately, as the owner.

    Raises:
        Conflict: one is on its way (`test_waits`).
        TooOften: too many tests of the owner's webhooks.
    """
    with transaction.atomic():
        webhook = Webhook.objects.select_for_update(no_key=True).get(
            pk=get_webhook(id=id, at=at, actor=actor).webhook.pk
        )
        require_owner(webhook, actor)
        if webhook.deliveries.filter(event=Delivery.Event.TEST, state=Delivery.State.WAITING).exists():
            raise Conflict("A test is on its way already.", code="test_waits")
        tests = Delivery.objects.filter(webhook__owner=webhook.owner_id, event=Delivery.Event.TEST)
        if tests.filter(created_at__gt=at - TESTED_WITHIN).count() >= MOST_TESTS:
            raise TooOften(f"At most {MOST_TESTS} tests a minute: wait a moment.", code="too_many_tests")
        made = Delivery.objects.create(webhook=webhook, event=Delivery.Event.TEST, news_at=at, due_at=at, created_at=at)
        _note("webhook.tested", webhook, at, actor)
        enqueue_run(kind=RUN_KIND, subject="site", at=at)
    return made


def drop_waiting(webhook: Webhook, at: datetime) -> None:
    waiting = webhook.deliveries.filter(state=Delivery.State.WAITING)
    waiting.update(state=Delivery.State.DROPPED, ended_at=at)


def _locked(id: int, version: int, at: datetime, actor: Actor) -> Webhook:
    seen = get_webhook(id=id, at=at, actor=actor).webhook
    webhook = (
        Webhook.objects.select_for_update(of=("self",), no_key=True)
        .select_related("policy", "owner")
        .filter(pk=seen.pk)
        .first()
    )
    if webhook is None or webhook.version != version:
        raise Stale("Another person changed this webhook: check it again.")
    return webhook


def _save(webhook: Webhook) -> None:
    webhook.version += 1
    webhook.save()


def is_owner(webhook: Webhook, actor: Actor) -> bool:
    return actor.token is None and actor.user is not None and webhook.owner_id == actor.user.pk


def require_owner(webhook: Webhook, actor: Actor) -> None:
    if not is_owner(webhook, actor):
        raise NotAllowed(
            "This webhook sends what its owner may see, so only the owner changes it. You may turn it off or remove it."
        )


def _may_manage(webhook: Webhook, at: datetime, actor: Actor) -> bool:
    if actor.token is not None:
        return False
    return is_owner(webhook, actor) or may_set(Place(policy=webhook.policy, entry_uid=webhook.entry_uid), at, actor)


def _line(webhook: Webhook) -> WebhookLine:
    return WebhookLine(webhook, host_of(webhook.url), path_of(webhook))


def host_of(url: str) -> str:
    """The visible part of a URL: those of chat programs have a secret in their path."""
    try:
        return target_of(url).host
    except Refused:
        return "?"


def path_of(webhook: Webhook) -> str:
    if webhook.policy is None:
        return ""
    if webhook.entry_uid is None:
        return "/"
    tree = load_tree(webhook.policy)
    i = tree.index_of_uid(webhook.entry_uid)
    return "?" if i is None else tree.path(i)


def _checked(name: str, url: str, wanted: Sequence[str]) -> dict[str, Any]:
    problems = []
    clean = " ".join(name.split())
    if not clean or len(clean) > most_characters(Webhook, "name") or not clean.isprintable():
        most = most_characters(Webhook, "name")
        problems.append(FieldProblem("name", f"is needed: up to {most} printable characters"))
    try:
        target_of(url)
    except Refused as error:
        problems.append(FieldProblem("url", error.message))
    problems += [FieldProblem("kinds", f"{each[:40]!r} is no kind of notice") for each in wanted if not is_kind(each)]
    if problems:
        raise Invalid(f"{problems[0].where}: {problems[0].message}", fields=problems)
    return {"name": clean, "url": url, "kinds": sorted(set(wanted))}


def _note(verb: str, webhook: Webhook, at: datetime, actor: Actor) -> None:
    details: Mapping[str, Any] = {"webhook": webhook.pk, "host": host_of(webhook.url), "kinds": webhook.kinds}
    uid: UUID | None = webhook.entry_uid
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=webhook.policy.slug if webhook.policy else "",
        entry_uid=uid,
        subject=webhook.name,
        details=details,
    )
