"""A peer's reported usage by hour against its capacity, and its running jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count, Max, Sum

from apps.federation.models import HeldHour, Subscription
from apps.federation.usage_feeds.quarantine import doubted_from
from apps.usage.models import Record

HOUR_S = 3_600.0
MOST_HOURS = 48
_COUNTED = """
SELECT hour_at, sum(cpu_s) FROM usage_bucket WHERE source_id = %s GROUP BY hour_at ORDER BY hour_at DESC LIMIT %s
"""
_ALL = "SELECT count(DISTINCT hour_at), sum(cpu_s), min(hour_at), max(hour_at) FROM usage_bucket WHERE source_id = %s"


@dataclass(frozen=True, slots=True)
class ReportedHour:
    """counted_s: core-seconds that count now, None for none. held_s: reported but held, None where nothing is.

    possible_s: what the agreed capacity allows in an hour.
    """

    hour_at: datetime
    counted_s: float | None
    held_s: float | None
    possible_s: float

    @property
    def reported_s(self) -> float:
        return self.counted_s or 0.0 if self.held_s is None else self.held_s


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """hours: the newest, and among them every held one first. needed_cores: with which no held hour would be held.

    doubted_from: the first hour that is far beyond what the site has; from there on nothing is believed.
    """

    hours: Sequence[ReportedHour]
    n_hours: int
    counted_s: float
    first_at: datetime | None
    last_at: datetime | None
    n_held: int
    needed_cores: float
    n_running: int
    running_cores: float
    doubted_from: datetime | None = None


def load_reported_usage(subscription: Subscription) -> ReportedUsage:
    """The caller has asked whether the actor may see the subscription."""
    possible_s = subscription.capacity_cores * HOUR_S
    mine = HeldHour.objects.filter(subscription=subscription)
    held = {row.hour_at: row for row in mine.order_by("-hour_at")[:MOST_HOURS]}
    all_held = mine.aggregate(n=Count("pk"), most=Max("cpu_s"))
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED, [subscription.source_id, MOST_HOURS])
        counted = dict(cursor.fetchall())
        cursor.execute(_ALL, [subscription.source_id])
        n_hours, counted_s, first_at, last_at = cursor.fetchone()
    shown = [*held, *(at for at in sorted(counted, reverse=True) if at not in held)][:MOST_HOURS]
    running = Record.objects.filter(source_id=subscription.source_id, state=Record.State.RUNNING)
    found = running.aggregate(n=Count("pk"), cores=Sum("cpus"))
    return ReportedUsage(
        hours=[
            ReportedHour(at, counted.get(at), held[at].cpu_s if at in held else None, possible_s)
            for at in sorted(shown, reverse=True)
        ],
        n_hours=int(n_hours),
        counted_s=float(counted_s or 0.0),
        first_at=first_at,
        last_at=last_at,
        n_held=int(all_held["n"]),
        needed_cores=float(all_held["most"] or 0.0) / HOUR_S,
        n_running=int(found["n"] or 0),
        running_cores=float(found["cores"] or 0.0),
        doubted_from=doubted_from(subscription),
    )
