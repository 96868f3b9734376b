"""Hold a peer's reported usage that exceeds its capacity or subscription until a manager decides.

An hour slightly above the capacity is held alone. One far above it means that the site measures in another unit, so its
other hours are wrong, too, although they are within the capacity. From that hour on nothing it reports counts, until it
reports that hour within its capacity, or a manager agrees to a larger one.

A document that names an entry outside the subscription is rejected. Usage reported before such an entry existed was
stored unassigned; it must not count once the entry appears, however the peer learned its uid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from django.db import connection, transaction
from django.db.models import Count, F, Max, QuerySet, Sum
from django.db.models.functions import Coalesce

from apps.accounts.entry_accounts import ENTRY_NAMESPACE
from apps.federation.documents.wire_usage import RunningRows, UsageDocument
from apps.federation.models import HeldHour, Subscription
from apps.federation.staleness import record_of
from apps.policies.tree.stored import load_tree
from apps.usage.bucket_deltas import AMOUNTS
from apps.usage.models import Bucket, Record
from apps.usage.parsers.base import I8
from apps.usage.records.peer_sums import HourSums, RunningJobs, replace_running, replace_sums

_HOUR_S = 3_600
_TOLERANCE = 1.01
_FAR = 1.5  # factor above a full hour's capacity that neither clock errors nor an outdated number of cores can explain
_SLACK_S = 60.0  # tolerance between the clock of the jobs and that of the document
_CPU = AMOUNTS.index("cpu_s")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_S = 3_600.0
MOST_QUARANTINED_HOURS = 48
_COUNTED = """
SELECT hour_at, sum(cpu_s) FROM usage_bucket WHERE source_id = %s GROUP BY hour_at ORDER BY hour_at DESC LIMIT %s
"""
_ALL = "SELECT count(DISTINCT hour_at), sum(cpu_s), min(hour_at), max(hour_at) FROM usage_bucket WHERE source_id = %s"

_REPORTED = """
SELECT account.id FROM accounts_account AS account
WHERE account.namespace = %(namespace)s AND account.user_name = ANY(%(names)s::text[])
    AND (EXISTS (SELECT FROM usage_bucket WHERE source_id = %(source)s AND account_id = account.id)
        OR EXISTS (SELECT FROM usage_record WHERE source_id = %(source)s AND account_id = account.id))
"""


@dataclass(frozen=True, eq=False)
class CheckedHours:
    """Result of the check. hours: since 1970, those that count. quarantined_cpu_s, most_cpu_s: of the others, by hour.

    doubted_from: the first hour far above the capacity, from which on nothing counts; None for none.
    """

    hours: I8
    quarantined_cpu_s: Mapping[int, float]
    most_cpu_s: Mapping[int, float]
    running_is_quarantined: bool
    doubted_from: int | None = None

    @property
    def is_all(self) -> bool:
        return not self.quarantined_cpu_s and not self.running_is_quarantined


def load_far(subscription: Subscription) -> I8:
    """Hours since 1970, ascending, that were far above the capacity at the last report."""
    hours = [(at - _EPOCH) // timedelta(hours=1) for at in _far_hours(subscription).values_list("hour_at", flat=True)]
    return np.array(hours, dtype=np.int64)


def doubted_from(subscription: Subscription) -> datetime | None:
    """The first hour far above the capacity, from which on nothing that the site reports counts; None for none."""
    return _far_hours(subscription).values_list("hour_at", flat=True).first()


def _far_hours(subscription: Subscription) -> QuerySet[HeldHour]:
    far_cpu_s = _far_cpu_s(subscription.capacity_cores, subscription.reported_capacity_cores)
    return HeldHour.objects.filter(subscription=subscription, cpu_s__gt=far_cpu_s).order_by("hour_at")


def _far_cpu_s(agreed_cores: float, reported_cores: float | None) -> float:
    """Usage that is far above the capacity of an hour, even an unfinished one; the larger capacity applies."""
    return _FAR * _TOLERANCE * _HOUR_S * max(reported_cores or 0.0, agreed_cores)


def separate_quarantined_hours(document: UsageDocument, capacity_cores: float, far_before: I8) -> CheckedHours:
    """Separate hours that count from those above the capacity.

    An unfinished hour allows only its elapsed part. far_before: result of `load_far` before this document.
    """
    place = np.searchsorted(document.hours, document.row_hour)
    sums = np.bincount(place, weights=document.amounts[:, _CPU], minlength=len(document.hours))
    cpu_s = sums.astype(np.float64)
    issued_s = document.head.issued_at.timestamp()
    lasted_s = np.clip(issued_s - document.hours * _HOUR_S + _SLACK_S, _SLACK_S, _HOUR_S)
    most = capacity_cores * _TOLERANCE * lasted_s
    is_far = cpu_s > _far_cpu_s(capacity_cores, document.head.capacity_cores)
    far = np.union1d(document.hours[is_far], np.setdiff1d(far_before, document.hours))
    first = int(far[0]) if len(far) else None
    is_quarantined = cpu_s > most
    if first is not None:
        is_quarantined |= (document.hours >= first) & (cpu_s > 0)
    quarantined = document.hours[is_quarantined].tolist()
    return CheckedHours(
        hours=document.hours[~is_quarantined],
        quarantined_cpu_s=dict(zip(quarantined, cpu_s[is_quarantined].tolist(), strict=True)),
        most_cpu_s=dict(zip(quarantined, most[is_quarantined].tolist(), strict=True)),
        running_is_quarantined=_are_too_many(document.running, capacity_cores, is_doubted=first is not None),
        doubted_from=first,
    )


def _are_too_many(running: RunningRows | None, capacity_cores: float, *, is_doubted: bool) -> bool:
    if running is None or not len(running):
        return False
    return is_doubted or float(running.cpus.sum()) > capacity_cores * _TOLERANCE


def store_quarantined_hours(
    subscription: Subscription, document: UsageDocument, sifted: CheckedHours, empty: I8, at: datetime
) -> None:
    """Store quarantined hours until they are reported within the capacity; report new ones once in the audit log.

    empty: hours since 1970 that are no longer reported.
    """
    quarantined = HeldHour.objects.filter(subscription=subscription)
    quarantined.filter(hour_at__in=[hour_at(hour) for hour in [*sifted.hours.tolist(), *empty.tolist()]]).delete()
    known = set(quarantined.values_list("hour_at", flat=True))
    new = sorted(hour for hour in sifted.quarantined_cpu_s if hour_at(hour) not in known)
    rows = [
        HeldHour(
            subscription=subscription,
            hour_at=hour_at(hour),
            number=document.head.number,
            cpu_s=cpu_s,
            most_cpu_s=sifted.most_cpu_s[hour],
            found_at=at,
        )
        for hour, cpu_s in sifted.quarantined_cpu_s.items()
    ]
    HeldHour.objects.bulk_create(  # a document may have a hundred thousand of them
        rows,
        batch_size=5_000,
        update_conflicts=True,
        unique_fields=["subscription", "hour_at"],
        update_fields=["number", "cpu_s", "most_cpu_s"],
    )
    running_is_new = sifted.running_is_quarantined and not subscription.running_held
    subscription.running_held = sifted.running_is_quarantined
    if new or running_is_new:
        _alarm(subscription, sifted, new, running_is_new, at)


def hour_at(hour: int) -> datetime:
    return _EPOCH + timedelta(hours=hour)


def _alarm(
    subscription: Subscription, sifted: CheckedHours, new: list[int], running_is_new: bool, at: datetime
) -> None:
    details: dict[str, object] = {"capacity_cores": subscription.capacity_cores, "hours": len(new)}
    if new:
        details["first"] = hour_at(new[0]).isoformat()
        details["cpu_s"], details["most_cpu_s"] = sifted.quarantined_cpu_s[new[0]], sifted.most_cpu_s[new[0]]
    if sifted.doubted_from is not None:
        details["doubted_from"] = hour_at(sifted.doubted_from).isoformat()
    if running_is_new:
        details["running"] = "held"
    record_of(subscription, verb="federation.usage_held", at=at, details=details, outcome="failed")


@dataclass(frozen=True, slots=True)
class ReportedHour:
    """One hour. counted_s: core-seconds that count now, None for none. held_s: reported but held, None for none.

    possible_s: allowed by the agreed capacity in an hour.
    """

    hour_at: datetime
    counted_s: float | None
    held_s: float | None
    possible_s: float

    @property
    def is_held(self) -> bool:
        return self.held_s is not None

    @property
    def reported_s(self) -> float:
        return self.counted_s or 0.0 if self.held_s is None else self.held_s


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """The newest hours, and every held one first. needed_cores: the capacity with which no hour would be held.

    doubted_from: the first hour far above the capacity, from which on nothing counts.
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
    """Reported usage of a subscription; the caller has checked the actor's right to see it."""
    possible_s = subscription.capacity_cores * HOUR_S
    rows = HeldHour.objects.filter(subscription=subscription)
    quarantined = {row.hour_at: row for row in rows.order_by("-hour_at")[:MOST_QUARANTINED_HOURS]}
    all_quarantined = rows.aggregate(n=Count("pk"), most=Max("cpu_s"))
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED, [subscription.source_id, MOST_QUARANTINED_HOURS])
        counted = dict(cursor.fetchall())
        cursor.execute(_ALL, [subscription.source_id])
        n_hours, counted_s, first_at, last_at = cursor.fetchone()
    shown = [*quarantined, *(at for at in sorted(counted, reverse=True) if at not in quarantined)][
        :MOST_QUARANTINED_HOURS
    ]
    running = Record.objects.filter(source_id=subscription.source_id, state=Record.State.RUNNING)
    totals = running.aggregate(n=Count("pk"), cores=Sum(Coalesce("cpus", 1.0)))
    return ReportedUsage(
        hours=[
            ReportedHour(at, counted.get(at), quarantined[at].cpu_s if at in quarantined else None, possible_s)
            for at in sorted(shown, reverse=True)
        ],
        n_hours=int(n_hours),
        counted_s=float(counted_s or 0.0),
        first_at=first_at,
        last_at=last_at,
        n_held=int(all_quarantined["n"]),
        needed_cores=float(all_quarantined["most"] or 0.0) / HOUR_S,
        n_running=int(totals["n"] or 0),
        running_cores=float(totals["cores"] or 0.0),
        doubted_from=doubted_from(subscription),
    )


def drop_out_of_scope_entries(at: datetime) -> int:
    """Check each subscription once after each revision of its policy; return how many had such entries."""
    n_had = 0
    moved_on = Subscription.objects.exclude(checked_number=F("policy__head_number"))
    for pk in moved_on.order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            rows = Subscription.objects.select_for_update(of=("self",), no_key=True).select_related("policy", "source")
            row = rows.filter(pk=pk).first()
            if row is None:
                continue
            strangers = _out_of_scope_entries(row)
            if strangers:
                _drop(row, strangers, at)
                n_had += 1
            row.checked_number = row.policy.head_number
            row.save(update_fields=["checked_number"])
    return n_had


def _out_of_scope_entries(row: Subscription) -> list[int]:
    """Accounts of entries outside the subscription for which its peer has reported usage."""
    tree = load_tree(row.policy)
    here = tree.index_of_uid(row.entry_uid)
    outside = np.ones(len(tree), dtype=np.bool_) if here is None else ~tree.subtree_mask(here)
    names = [str(tree.uuid(i)) for i in np.flatnonzero(outside).tolist()]
    with connection.cursor() as cursor:
        cursor.execute(_REPORTED, {"namespace": ENTRY_NAMESPACE, "names": names, "source": row.source_id})
        return [account for (account,) in cursor.fetchall()]


def _drop(row: Subscription, strangers: list[int], at: datetime) -> None:
    """Rewrite their hours without them; running jobs are reported again by the next document."""
    buckets = Bucket.objects.filter(source=row.source)
    hours = list(buckets.filter(account_id__in=strangers).values_list("hour_at", flat=True).distinct())
    rest = list(
        buckets.filter(hour_at__in=hours)
        .exclude(account_id__in=strangers)
        .values_list("hour_at", "account_id", *AMOUNTS)
    )
    sums = HourSums(
        np.array([_number(hour_at) for hour_at, *_ in rest], np.int64),
        np.array([account for _, account, *_ in rest], np.int64),
        np.array([amounts for _, _, *amounts in rest], np.float64).reshape(-1, len(AMOUNTS)),
    )
    replace_sums(row.source, hours=np.array([_number(each) for each in hours], np.int64), rows=sums, at=at)
    if Record.objects.filter(source=row.source, account_id__in=strangers).exists():
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        replace_running(row.source, RunningJobs(none, none, *[nothing] * 6), at=at)
    details = {"entries": len(strangers), "hours": len(hours)}
    record_of(row, verb="federation.out_of_scope_dropped", at=at, details=details, outcome="failed")


def _number(hour_at: datetime) -> int:
    return int(hour_at.timestamp()) // _HOUR_S
