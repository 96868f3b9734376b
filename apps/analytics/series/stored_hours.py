"""The hours of some entries as arrays: three queries, whatever the size of the tree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from uuid import UUID

import numpy as np

from apps.analytics.models import SeriesHour
from apps.analytics.series.calendar import HOUR_S, site_zone
from apps.analytics.series.storage.columns import DailySeries, SeriesDays
from apps.analytics.series.storage.tiles import BLOCK, DAYS, empty_month, find_slots, read_tiles
from apps.analytics.series.stored_series import by_block, series_of
from apps.policies.models import Policy
from apps.priorities.recompute.pipeline import one_view


def load_hours(policy: Policy, uids: Sequence[UUID]) -> DailySeries:
    """Of these entries in their order, all hours that are built; `days.on` are the instants at which they begin."""
    with one_view():
        rows = list(SeriesHour.objects.filter(policy=policy).order_by("begins_at"))
        slots = find_slots(policy, uids)
        on = sorted({row.begins_at.astimezone(UTC).date() for row in rows})
        blocks = {slot // BLOCK for slot in slots.values()}
        tiles = read_tiles(policy, on, blocks, tiles=DAYS) if slots and on else {}
    found = empty_month(len(uids), len(rows))
    places = by_block([slots.get(uid, -1) for uid in uids])
    for at, row in enumerate(rows):
        begins_at = row.begins_at.astimezone(UTC)
        for block, (of_block, columns) in places.items():
            for name, values in tiles.get((block, begins_at.date()), {}).items():
                found[name][of_block, at] = values[begins_at.hour, columns]
    return series_of(uids, _hours(rows), found)


def _hours(rows: Sequence[SeriesHour]) -> SeriesDays:
    zone = site_zone()
    return SeriesDays(
        on=tuple(row.begins_at.astimezone(zone) for row in rows),
        ends_s=np.array([row.begins_at.timestamp() + HOUR_S for row in rows], np.float64),
        revision=np.array([row.revision_number for row in rows], np.int32),
        is_before_first=np.array([row.is_before_first for row in rows], np.bool_),
        root_used=np.array([row.root_used for row in rows], np.float64),
        root_decayed=np.array([row.root_decayed for row in rows], np.float64),
    )
