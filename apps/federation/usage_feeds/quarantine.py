"""Quarantine of usage beyond a peer's capacity: such hours and running jobs don't count until a manager decides.

An hour slightly beyond is held alone. One far beyond means that the site measures in another unit, which makes its idle
hours as wrong as its busy ones, though they stay within the capacity: from that hour on nothing it reports counts,
until it reports the hour within its capacity, or a manager agrees to a larger one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from django.db.models import QuerySet

from apps.accounts.actor import SYSTEM
from apps.accounts.audit.log import record
from apps.federation.documents.wire_usage import RunningRows, UsageDocument
from apps.federation.models import HeldHour, Subscription
from apps.usage.buckets.hourly import AMOUNTS
from apps.usage.parsers.base import F8, I8

_HOUR_S = 3_600
_TOLERANCE = 1.01
_FAR = 1.5  # times what a whole hour allows: more than slips of a clock or an old count of cores can explain
_SLACK_S = 60.0  # between the clock of the jobs and that of the document
_CPU = AMOUNTS.index("cpu_s")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Sifted:
    """hours: since 1970, those that count as reported. held_cpu_s, most_cpu_s: of those that don't, by hour.

    doubted_from: the first hour that is far beyond, from which on nothing counts; None for none.
    """

    hours: I8
    held_cpu_s: Mapping[int, float]
    most_cpu_s: Mapping[int, float]
    running_is_held: bool
    doubted_from: int | None = None

    @property
    def is_all(self) -> bool:
        return not self.held_cpu_s and not self.running_is_held


def load_far(subscription: Subscription) -> I8:
    """Hours since 1970, ascending, that were far beyond at the last report."""
    found = [(at - _EPOCH) // timedelta(hours=1) for at in _far(subscription).values_list("hour_at", flat=True)]
    return np.array(found, dtype=np.int64)


def doubted_from(subscription: Subscription) -> datetime | None:
    """The first of these hours: from there on nothing that the site reports counts."""
    return _far(subscription).values_list("hour_at", flat=True).first()


def _far(subscription: Subscription) -> QuerySet[HeldHour]:
    far_cpu_s = _far_cpu_s(subscription.capacity_cores, subscription.reported_capacity_cores)
    return HeldHour.objects.filter(subscription=subscription, cpu_s__gt=far_cpu_s).order_by("hour_at")


def _far_cpu_s(agreed_cores: float, reported_cores: float | None) -> float:
    """In an hour, also in one that isn't over. A site that says that it has grown counts by the same measure."""
    return _FAR * _TOLERANCE * _HOUR_S * max(reported_cores or 0.0, agreed_cores)


def sift(document: UsageDocument, capacity_cores: float, far_before: I8) -> Sifted:
    """An hour comes to at most all cores for all of it; the one that isn't over, for as long as it has lasted.

    far_before: as `load_far` found them before this document.
    """
    cpu_s = _by_hour(document)
    issued_s = document.head.issued_at.timestamp()
    lasted_s = np.clip(issued_s - document.hours * _HOUR_S + _SLACK_S, _SLACK_S, _HOUR_S)
    most = capacity_cores * _TOLERANCE * lasted_s
    is_far = cpu_s > _far_cpu_s(capacity_cores, document.head.capacity_cores)
    far = np.union1d(document.hours[is_far], np.setdiff1d(far_before, document.hours))
    first = int(far[0]) if len(far) else None
    is_held = cpu_s > most
    if first is not None:
        is_held |= (document.hours >= first) & (cpu_s > 0)
    held = document.hours[is_held].tolist()
    return Sifted(
        hours=document.hours[~is_held],
        held_cpu_s=dict(zip(held, cpu_s[is_held].tolist(), strict=True)),
        most_cpu_s=dict(zip(held, most[is_held].tolist(), strict=True)),
        running_is_held=_are_too_many(document.running, capacity_cores, is_doubted=first is not None),
        doubted_from=first,
    )


def _are_too_many(running: RunningRows | None, capacity_cores: float, *, is_doubted: bool) -> bool:
    if running is None or not len(running):
        return False
    return is_doubted or float(running.cpus.sum()) > capacity_cores * _TOLERANCE


def keep_held(subscription: Subscription, document: UsageDocument, sifted: Sifted, empty: I8, at: datetime) -> None:
    """List held hours until they are reported within the capacity; log new ones once.

    empty: hours since 1970 that are no longer reported.
    """
    mine = HeldHour.objects.filter(subscription=subscription)
    mine.filter(hour_at__in=[hour_at(hour) for hour in [*sifted.hours.tolist(), *empty.tolist()]]).delete()
    known = set(mine.values_list("hour_at", flat=True))
    new = sorted(hour for hour in sifted.held_cpu_s if hour_at(hour) not in known)
    rows = [
        HeldHour(
            subscription=subscription,
            hour_at=hour_at(hour),
            number=document.head.number,
            cpu_s=cpu_s,
            most_cpu_s=sifted.most_cpu_s[hour],
            found_at=at,
        )
        for hour, cpu_s in sifted.held_cpu_s.items()
    ]
    HeldHour.objects.bulk_create(  # a document may hold a hundred thousand of them
        rows,
        batch_size=5_000,
        update_conflicts=True,
        unique_fields=["subscription", "hour_at"],
        update_fields=["number", "cpu_s", "most_cpu_s"],
    )
    running_is_new = sifted.running_is_held and not subscription.running_held
    subscription.running_held = sifted.running_is_held
    if new or running_is_new:
        _alarm(subscription, sifted, new, running_is_new, at)


def hour_at(hour: int) -> datetime:
    return _EPOCH + timedelta(hours=hour)


def _by_hour(document: UsageDocument) -> F8:
    place = np.searchsorted(document.hours, document.row_hour)
    sums = np.bincount(place, weights=document.amounts[:, _CPU], minlength=len(document.hours))
    return sums.astype(np.float64)


def _alarm(subscription: Subscription, sifted: Sifted, new: list[int], running_is_new: bool, at: datetime) -> None:
    details: dict[str, object] = {"capacity_cores": subscription.capacity_cores, "hours": len(new)}
    if new:
        details["first"] = hour_at(new[0]).isoformat()
        details["cpu_s"], details["most_cpu_s"] = sifted.held_cpu_s[new[0]], sifted.most_cpu_s[new[0]]
    if sifted.doubted_from is not None:
        details["doubted_from"] = hour_at(sifted.doubted_from).isoformat()
    if running_is_new:
        details["running"] = "held"
    record(
        actor=SYSTEM,
        verb="federation.usage_held",
        at=at,
        policy_slug=subscription.policy.slug,
        entry_uid=subscription.entry_uid,
        subject=str(subscription),
        details=details,
        outcome="failed",
    )
