"""The past of a policy: days that a view of the past can show, and numbers of instants without a stored snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from threading import Lock

from cachetools import LRUCache
from django.db import connection

from apps.core import clock
from apps.core.derived_state import in_memory
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.priorities.recompute.fingerprint import read_fingerprint
from apps.priorities.recompute.inputs import first_usage_at, state_at
from apps.priorities.recompute.pipeline import compute, computed_parts, load_inputs
from apps.priorities.serving.lookup import LookupIndex
from apps.priorities.serving.served_snapshot import ServedSnapshot, serve

DERIVED_STATE = (
    in_memory(
        "_cache",
        holds="numbers of past instants",
        key="policy and fingerprint of the instant",
        inputs="all inputs of a recompute of that instant",
        range="one instant",
        ends="another fingerprint; the newest ones push it out",
    ),
)

_MOST_PAST_REVISIONS = 400
# Stored days: those with a snapshot in their last hour, which represents the end of the day.
_PAST = """
SELECT (SELECT min(hour_at) FROM usage_bucket),
    (SELECT published_at FROM policies_revision WHERE policy_id = policy.id ORDER BY number LIMIT 1),
    ARRAY(SELECT published_at FROM policies_revision WHERE policy_id = policy.id ORDER BY number DESC LIMIT %(most)s),
    ARRAY(SELECT number FROM policies_revision WHERE policy_id = policy.id ORDER BY number DESC LIMIT %(most)s),
    ARRAY(
        SELECT DISTINCT (as_of AT TIME ZONE %(zone)s)::date FROM priorities_snapshot
        WHERE policy_id = policy.id AND is_live AND extract(hour FROM as_of AT TIME ZONE %(zone)s) = 23
    )
FROM policies_policy AS policy WHERE policy.slug = %(slug)s
"""
CLOSE = timedelta(hours=1)  # a stored snapshot that is at most this much older is used for an instant
_MOST_CACHED_PAST_SNAPSHOTS = 4


@dataclass(frozen=True)
class PastDays:
    """Days that a view of the past can show, as ordinals in a time zone. stored: days with a snapshot at their end.

    revisions: (day, number) of the newest few hundred revisions published in the range, oldest first.
    """

    first_at: datetime
    first: int
    last: int
    stored: frozenset[int]
    revisions: tuple[tuple[int, int], ...]


def list_past_days(*, policy_slug: str, zone: tzinfo, now: datetime) -> PastDays | None:
    """Days with usage and a revision; None if there are none. The caller checks that the policy is visible."""
    with connection.cursor() as cursor:
        cursor.execute(_PAST, {"slug": policy_slug, "zone": str(zone), "most": _MOST_PAST_REVISIONS})
        used_at, first_revision_at, published, numbers, stored = cursor.fetchone() or (None, None, [], [], [])
    if used_at is None or first_revision_at is None:
        return None
    first_at = max(used_at + timedelta(seconds=1), first_revision_at)
    if first_at >= now:
        return None
    first, last = _day(first_at, zone), _day(now, zone)
    revisions = ((_day(at, zone), number) for at, number in zip(published, numbers, strict=True))
    return PastDays(
        first_at,
        first,
        last,
        stored=frozenset(day.toordinal() for day in stored),
        revisions=tuple(revision for revision in revisions if revision[0] >= first)[::-1],
    )


def _day(at: datetime, zone: tzinfo) -> int:
    return at.astimezone(zone).date().toordinal()


_cache: LRUCache[tuple[int, str], ServedSnapshot] = LRUCache(_MOST_CACHED_PAST_SNAPSHOTS)
_lock = Lock()


def reconstruct(policy: Policy, at: datetime) -> ServedSnapshot | None:
    """Compute a snapshot of a past instant, equal to a recompute of it, without storing it. The last few are cached.

    Its id is negative, which no stored snapshot has. None before the first usage, or if a package fails or the decay
    function is unknown. The policy must have a revision at the instant.
    """
    first_at = first_usage_at()
    if first_at is None or at <= first_at:
        return None
    key = policy.pk, read_fingerprint(policy, as_of=at, state=state_at(policy, at)).digest
    with _lock:  # concurrent requests of one page wait for one computation
        if key not in _cache:
            try:
                _cache[key] = _compute(policy, at)
            except Invalid:
                return None
        return _cache[key]


def _compute(policy: Policy, at: datetime) -> ServedSnapshot:
    inputs = load_inputs(policy, as_of=at, is_past=True)
    values, places, meta = computed_parts(inputs, compute(inputs))
    index = LookupIndex(inputs.tree, places, places.digest)
    return serve(-int(inputs.fingerprint.digest[:12], 16) - 1, clock.now(), values, index, meta)
