"""Days measured against the policy of today: what each would have been had the head revision been current on it.

Computed on request and not stored. It isn't the past as it was; every view of it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

import numpy as np
from django.db import connection
from django.utils.translation import gettext as _

from apps.analytics.models import SeriesDay
from apps.analytics.series.builder import Builder, BuiltDay
from apps.analytics.series.calendar import days_of, site_zone
from apps.analytics.series.storage.columns import DailySeries, SeriesDays
from apps.analytics.series.storage.tiles import empty_month
from apps.analytics.series.stored_series import series_of
from apps.core.errors import TooLarge
from apps.policies.models import Policy
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import load_tree

MOST_DAYS = 100
MOST_BUCKETS = 1_000_000  # of usage in the period: some seconds of work
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s LIMIT %s) buckets
"""


def load_against_today(policy: Policy, uids: Sequence[UUID], *, from_on: date, to_on: date) -> DailySeries:
    """Of entries of the head, on the days that the series has between two days, both included.

    Raises TooLarge `too_many_days` over MOST_DAYS, and over MOST_BUCKETS hours of usage.
    """
    built = SeriesDay.objects.filter(policy=policy, on__range=(from_on, to_on)).order_by("on")
    on = list(built.values_list("on", flat=True))
    days = days_of(on[0], on[-1], site_zone()) if on else []
    _refuse_too_many(len(days), (days[0].from_at, days[-1].to_at) if days else None)
    tree = load_tree(policy)
    raw = np.frombuffer(b"".join(uid.bytes for uid in uids), np.uint8).reshape(len(uids), 16)
    places = indexes_of(raw, tree)
    found = empty_month(len(uids), len(days))
    made: list[BuiltDay] = []
    for at, day in enumerate(Builder(policy, days, revision=policy.head_number).build(days) if days else ()):
        made.append(day)
        for name, values in day.values.what.items():
            found[name][: len(uids), at] = np.where(places >= 0, values[np.maximum(places, 0)], 0)
    return series_of(uids, _days(made), found)


def _days(made: Sequence[BuiltDay]) -> SeriesDays:
    return SeriesDays(
        on=tuple(one.day.on for one in made),
        ends_s=np.array([one.day.to_s for one in made], np.float64),
        revision=np.array([one.standing.number for one in made], np.int32),
        is_before_first=np.zeros(len(made), np.bool_),
        root_used=np.array([one.values.root_used for one in made], np.float64),
        root_decayed=np.array([one.values.root_decayed for one in made], np.float64),
    )


def _refuse_too_many(n_days: int, span: tuple[datetime, datetime] | None) -> None:
    n_buckets = 0
    if span is not None and n_days <= MOST_DAYS:
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, [*span, MOST_BUCKETS + 1])
            n_buckets = int(cursor.fetchone()[0])
    if n_days > MOST_DAYS or n_buckets > MOST_BUCKETS:
        message = _(
            "At most %(days)s days with %(n)s hours of usage can be compared with the current policy: choose "
            "fewer days."
        )
        raise TooLarge(message % {"days": MOST_DAYS, "n": f"{MOST_BUCKETS:,}"}, code="too_many_days")
