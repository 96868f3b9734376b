"""What a series was built from, and from which day on that isn't so any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection

from apps import engine
from apps.accounts.account_ids import load_roll
from apps.analytics.models import Series
from apps.analytics.series.calendar import day_at
from apps.analytics.series.revision_state import has_new_places, unplaced_accounts
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.rules.rule_set import people_digest
from apps.policies.models import Policy, Revision
from apps.policies.tree.stored import load_tree
from apps.priorities.local_only.services import list_local_only_entries
from apps.usage.buckets.hourly import earliest_change
from apps.usage.selectors import watermarks

LAYOUT = 2  # of tiles and of what is counted in them: another one makes everything again


def read_inputs(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """From the database now, as JSON."""
    mapping = MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first()
    return {
        "layout": LAYOUT,
        "zone": zone.key,
        "engine": engine.VERSION,
        "mapping": mapping or 0,
        "people": people_digest(load_tree(policy)),
        "head": policy.head_number,
        "watermarks": watermarks(),
        "fallbacks": {str(one.uid): one.since.astimezone(UTC).isoformat() for one in list_local_only_entries(policy)},
    }


def built_from(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """The inputs as a build stores them, with the unmapped accounts."""
    return {**read_inputs(policy, zone), "unplaced": unplaced_accounts(policy, load_roll(remembers=False))}


def first_day(policy: Policy, zone: ZoneInfo) -> date:
    """Of the first usage, or of the first published shares where that is earlier."""
    return day_at(first_at(policy), zone).on


def first_at(policy: Policy) -> datetime:
    """As an instant."""
    published = Revision.objects.filter(policy=policy).order_by("published_at").values_list("published_at", flat=True)
    shares_at: datetime = published.filter(n_entries__gt=1).first() or published[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        hour_at = cursor.fetchone()[0]
    return shares_at if hour_at is None else min(shares_at, hour_at)


def stale_from(policy: Policy, series: Series | None, now: Mapping[str, Any], zone: ZoneInfo) -> date | None:
    """The first day that is to be made again, or for the first time; None where all that is there still holds."""
    if series is None or series.through_on is None or series.first_on is None:
        return first_day(policy, zone)
    then = series.inputs
    if is_all_other(policy, then, now):
        return min(first_day(policy, zone), series.first_on)
    found = [] if series.redo_from_on is None else [series.redo_from_on]
    changed_at = earliest_change(then["watermarks"])
    if changed_at is not None:
        found.append(max(day_at(max(changed_at, EARLIEST), zone).on, first_day(policy, zone)))
    found += [day_at(since, zone).on for since in changed_policy(policy, then, now)]
    earliest = min(found, default=None)
    return earliest if earliest is not None and earliest <= series.through_on else None


def is_all_other(policy: Policy, then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether nothing holds that was built from the inputs of then."""
    if any(then.get(name) != now[name] for name in ("layout", "zone", "engine", "mapping", "people")):
        return True
    return bool(then["head"] != now["head"]) and has_new_places(policy, then)


def changed_policy(policy: Policy, then: Mapping[str, Any], now: Mapping[str, Any]) -> list[datetime]:
    """Since when the policy is another one than a build knew: by a revision, or by a local-only fallback."""
    found = _fallen_otherwise(then.get("fallbacks", {}), now["fallbacks"])
    later = Revision.objects.filter(policy=policy, number__gt=then["head"]).order_by("published_at")
    published_at = later.values_list("published_at", flat=True).first()
    return found if published_at is None else [*found, published_at]


def _fallen_otherwise(then: Mapping[str, str], now: Mapping[str, str]) -> list[datetime]:
    """Since when entries entered or left local-only fallback."""
    return [datetime.fromisoformat(since) for _uid, since in then.items() ^ now.items()]


EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
