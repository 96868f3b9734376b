"""Usage feeds: the usage that this site sends, for which entries and to whom."""

from __future__ import annotations

import math
from datetime import datetime

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.core.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.federation.documents.wire_usage import LEAST_DOCUMENT_CORES, MOST_DOCUMENT_CORES
from apps.federation.models import UsageFeed
from apps.federation.publishing import LEAST_EXPIRY_S, MOST_EXPIRY_S, entry_to_publish, refuse_name
from apps.federation.usage_feeds.feed_build import add_marks, build_feed, is_small

MOST_FEED_DAYS = 3_660


def make_feed(
    *,
    policy_slug: str,
    entry: str,
    name: str,
    capacity_cores: float,
    sends_running: bool = True,
    is_open: bool = False,
    keeps_days: int = 400,
    expires_after_s: int = 86_400,
    at: datetime,
    actor: Actor,
) -> UsageFeed:
    """Send the local usage of an entry (a path) and its subtree to others under a name, or change the settings.

    It is built at once on a site with little usage; otherwise by the schedule; until then readers get a 503.

    Raises:
        NotAllowed: not an administrator.
        Invalid, NotFound, Conflict: a value, the entry, or the name exists already.
    """
    require_site(actor)
    _check(name, capacity_cores, keeps_days, expires_after_s)
    policy, uid = entry_to_publish(UsageFeed, "feed", policy_slug, entry, name, actor)
    values = {
        "name": name,
        "capacity_cores": float(capacity_cores),
        "sends_running": sends_running,
        "is_open": is_open,
        "keeps_days": keeps_days,
        "expires_after_s": expires_after_s,
    }
    with transaction.atomic():
        feed, is_new = UsageFeed.objects.update_or_create(
            policy=policy,
            entry_uid=uid,
            defaults=values,
            create_defaults={**values, "made_at": at, "number": _number_before(name)},
        )
        if is_new and feed.number:  # the mark differs, so readers of the former feed of this name notice it
            add_marks(feed.pk, after=feed.number - 1, upto=feed.number)
        verb = "federation.feed_made" if is_new else "federation.feed_changed"
        details = {"entry": entry, **values}
        audit.record(actor=actor, verb=verb, at=at, policy_slug=policy.slug, subject=name, details=details)
    return build_feed(feed.pk, at=at) if is_small() else feed


@transaction.atomic
def drop_feed(*, name: str, at: datetime, actor: Actor) -> None:
    """Stop sending; readers keep what they have.

    Raises:
        NotAllowed: not an administrator.
        NotFound: there is no such feed.
    """
    require_site(actor)
    feed = (
        UsageFeed.all_objects.select_for_update(of=("self",), no_key=True)
        .select_related("policy")
        .filter(name=name)
        .first()
    )
    if feed is None:
        raise NotFound(f"There is no feed {name[:128]!r}.")
    details = {"number": feed.number}
    feed.delete()
    audit.record(
        actor=actor, verb="federation.feed_dropped", at=at, policy_slug=feed.policy.slug, subject=name, details=details
    )


def require_site(actor: Actor) -> None:
    if not actor.is_admin:
        raise NotAllowed("Only administrators of the whole site decide about usage feeds.")


def list_feeds(*, actor: Actor) -> list[UsageFeed]:
    require_site(actor)
    return list(UsageFeed.objects.select_related("policy").order_by("name"))


def _number_before(name: str) -> int:
    """The last number of a deleted feed of this name; a new feed continues from it, in another lineage."""
    dropped = AuditEvent.objects.filter(verb="federation.feed_dropped", subject=name).order_by("-id")
    return int((dropped.values_list("details", flat=True).first() or {}).get("number", 0))


def _check(name: str, capacity_cores: float, keeps_days: int, expires_after_s: int) -> None:
    refuse_name(name)
    for where, value, least, most in (
        ("capacity_cores", capacity_cores, LEAST_DOCUMENT_CORES, MOST_DOCUMENT_CORES),
        ("keeps_days", keeps_days, 1, MOST_FEED_DAYS),
        ("expires_after_s", expires_after_s, LEAST_EXPIRY_S, MOST_EXPIRY_S),
    ):
        if not (math.isfinite(value) and least <= value <= most):
            message = f"must be from {least:,} to {most:,.0f}"
            raise Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
