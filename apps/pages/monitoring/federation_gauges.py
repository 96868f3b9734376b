"""Metrics of federation: ages of documents, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count
from prometheus_client.core import Metric

from apps.core import clock
from apps.federation.models import HeldHour, Mount, Remote, Subscription
from apps.federation.staleness import last_contact_at as last_contact_of_remote
from apps.pages.monitoring.gauges import gauge

_LABELS = ("kind", "policy", "issuer", "name")
_MOST_GAUGED_REMOTES = 500  # mounts and subscriptions each: limits the output


def federation_families() -> Iterator[Metric]:
    mounts = Mount.objects.select_related("policy").order_by("pk")[:_MOST_GAUGED_REMOTES]
    subscriptions = Subscription.objects.select_related("policy").order_by("pk")[:_MOST_GAUGED_REMOTES]
    peers: list[tuple[list[str], Mount | Subscription]] = [
        *((["mount", row.policy.slug, row.issuer, row.publication], row) for row in mounts),
        *((["usage", row.policy.slug, row.issuer, row.feed], row) for row in subscriptions),
    ]
    yield from _ages(peers, clock.now())
    yield from _waiting(peers)


def _ages(peers: list[tuple[list[str], Mount | Subscription]], at: datetime) -> Iterator[Metric]:
    age = gauge("fairshare_peer_age_seconds", "Seconds since the peer's data was last confirmed", *_LABELS)
    allowed = gauge("fairshare_peer_allowed_age_seconds", "Age beyond which the data is stale", *_LABELS)
    failed = gauge("fairshare_peer_failed_fetches", "Failed fetches in a row", *_LABELS)
    blocked = gauge("fairshare_peer_blocked", "1: a manager has to decide about a fork or another key", *_LABELS)
    for labels, row in peers:
        age.add_metric(labels, (at - last_contact_of_remote(row)).total_seconds())
        allowed.add_metric(labels, row.max_age_s)
        failed.add_metric(labels, row.n_failed)
        blocked.add_metric(labels, float(row.state == Remote.State.BLOCKED))
    yield from (age, allowed, failed, blocked)


def _waiting(peers: list[tuple[list[str], Mount | Subscription]]) -> Iterator[Metric]:
    review = gauge("fairshare_mount_held_for_review", "1: a document is held for review", *_LABELS[1:])
    hours = gauge("fairshare_peer_held_hours", "Hours held because reported usage exceeds the capacity", *_LABELS[1:])
    counts = HeldHour.objects.values_list("subscription_id").annotate(n=Count("pk")).order_by()
    held: dict[int, int] = dict(counts)
    for (_kind, *labels), row in peers:
        if isinstance(row, Mount):
            review.add_metric(labels, float(row.held_id is not None))
        else:
            hours.add_metric(labels, held.get(row.pk, 0))
    yield from (review, hours)
