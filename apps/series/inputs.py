"""The inputs from which a series is built (a revision's tree with its account mapping), and from which day they have
changed.

Usage of accounts whose entry came with a later revision: a mount is created after the first revisions, so on earlier
days the accounts of its members have no entry. Their usage is then attributed to the nearest ancestor of their current
entry that existed on that day, so that the mount's own entry has its full usage from the first day. If only the root
existed, the usage is dropped, like that of any unmapped account. An account mapped in the day's tree, by any rule, is
not affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps import engine
from apps.accounts.account_index import load_account_index
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.rules.rule_set import RuleInputs
from apps.policies.models import Policy, Revision
from apps.priorities.local_only import list_local_only_entries
from apps.series.days import day_at, site_zone
from apps.series.head_mapping import maps_unmapped_accounts, unmapped_account_ids
from apps.series.models import Series
from apps.usage.changed_hours import earliest_change
from apps.usage.selectors import submit_times, watermarks

Mask = npt.NDArray[np.bool_]

LAYOUT = 4  # of the tiles and their contents: another one rebuilds every series, as where days may hold wrong values
EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)


def read_inputs(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """Read the current inputs from the database, as JSON.

    people, namespaces: see `RuleInputs`. submit_times: see `usage.selectors`.
    """
    rule_inputs = RuleInputs.of_revisions(policy)
    mapping = MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first()
    return {
        "layout": LAYOUT,
        "zone": zone.key,
        "engine": engine.VERSION,
        "mapping": mapping or 0,
        "people": rule_inputs.people,
        "namespaces": dict(rule_inputs.namespaces),
        "head": policy.head_number,
        "watermarks": watermarks(),
        "submit_times": submit_times(),
        "fallbacks": {
            str(fallback.uid): fallback.since.astimezone(UTC).isoformat()
            for fallback in list_local_only_entries(policy)
        },
    }


def built_from(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """Return the inputs as a build stores them: the current ones, and the unmapped accounts."""
    return {**read_inputs(policy, zone), "unplaced": unmapped_account_ids(policy, load_account_index(use_cache=False))}


def first_day(policy: Policy, zone: ZoneInfo) -> date:
    """Return the day of the first usage, or of the first published shares if that is earlier."""
    return day_at(first_at(policy), zone).on


def first_at(policy: Policy) -> datetime:
    """Return the instant of the first usage, or of the first published shares if that is earlier."""
    published = Revision.objects.filter(policy=policy).order_by("published_at").values_list("published_at", flat=True)
    shares_at: datetime = published.filter(n_entries__gt=1).first() or published[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        hour_at = cursor.fetchone()[0]
    return shares_at if hour_at is None else min(shares_at, hour_at)


def stale_from(policy: Policy, series: Series | None, current: Mapping[str, Any], zone: ZoneInfo) -> date | None:
    """Return the first day that must be built or rebuilt; None if all built days are current.

    It may be before the first usage: built days before that hold usage which was removed since.
    """
    if series is None or series.through_on is None or series.first_on is None:
        return first_day(policy, zone)
    built, first_on = series.inputs, min(first_day(policy, zone), series.first_on)
    if invalidates_all(policy, built, current):
        return first_on
    dates = [] if series.redo_from_on is None else [series.redo_from_on]
    changed_at = earliest_change(built["watermarks"])
    if changed_at is not None:
        dates.append(max(day_at(max(changed_at, EARLIEST), zone).on, first_on))
    dates += [day_at(since, zone).on for since in policy_changes(policy, built, current)]
    earliest = min(dates, default=None)
    return earliest if earliest is not None and earliest <= series.through_on else None


def invalidates_all(policy: Policy, built: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Whether the inputs differ so much from those of the last build that no built day is usable."""
    if any(built.get(name) != current[name] for name in ("layout", "zone", "engine", "mapping", "people")):
        return True
    named_now = current["namespaces"]
    if any(named_now.get(slug, namespace) != namespace for slug, namespace in built["namespaces"].items()):
        return True
    return bool(built["head"] != current["head"]) and maps_unmapped_accounts(policy, built)


def policy_changes(policy: Policy, built: Mapping[str, Any], current: Mapping[str, Any]) -> list[datetime]:
    """List the instants from which on days changed since the build: by a revision, a local-only fallback, or because
    it is known since another instant whether a source reports submit times.
    """
    # The instants at which entries entered or left local-only fallback.
    instants = [
        datetime.fromisoformat(since)
        for _uid, since in built.get("fallbacks", {}).items() ^ current["fallbacks"].items()
    ]
    for slug, times in current["submit_times"].items():
        known = built["submit_times"].get(slug, [None, None])
        pairs = zip(times, known, strict=True)
        instants += [datetime.fromisoformat(at) for pair in pairs if pair[0] != pair[1] for at in pair if at]
    later = Revision.objects.filter(policy=policy, number__gt=built["head"]).order_by("published_at")
    published_at = later.values_list("published_at", flat=True).first()
    return instants if published_at is None else [*instants, published_at]


def holds(policy: Policy, built: Mapping[str, Any], *, until: datetime) -> bool:
    """Whether days that ended by `until` would be computed again as they were from these inputs with the head.

    built: as `read_inputs` returned them, before the usage of the days was read; empty: unknown.
    """
    current = read_inputs(policy, site_zone())
    if built.get("head") != current["head"] or invalidates_all(policy, built, current):
        return False
    instants = [*policy_changes(policy, built, current), earliest_change(built["watermarks"])]
    return all(at is None or at >= until for at in instants)
