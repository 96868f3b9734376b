"""Held hours: hours of a site that two sources report, with the usage of both and the decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from apps.accounts.actor import Actor

MOST_LISTED_HOURS = 200

# SQL condition for queries on buckets: leaves out hours that another source covers too, until a manager decides.
NOT_HELD = """ AND (usage_bucket.source_id, usage_bucket.site, usage_bucket.hour_at) NOT IN (
    SELECT held_id, site, generate_series(from_at, to_at - interval '1 hour', '1 hour') FROM usage_overlap
    WHERE state IN ('held', 'dropped')
        AND kept_id NOT IN (SELECT id FROM usage_source WHERE archived_at IS NOT NULL))
"""
# SQL condition on records: whether a job started in such hours, so that another source reports it too.
STARTED_HELD = """EXISTS (
    SELECT FROM usage_overlap AS held WHERE held.held_id = source_id AND held.site = usage_record.site
    AND held.state IN ('held', 'dropped') AND start_at >= held.from_at AND start_at < held.to_at
    AND kept_id NOT IN (SELECT id FROM usage_source WHERE archived_at IS NOT NULL))"""
# SQL condition for queries on buckets or records: leaves out archived sources.
OF_CURRENT = " AND source_id NOT IN (SELECT id FROM usage_source WHERE archived_at IS NOT NULL)"


@dataclass(frozen=True, slots=True)
class HeldHours:
    """All hours of a site that the same two sources report, with the same decision (`state`)."""

    site: str
    kept: str
    kept_name: str
    held: str
    held_name: str
    state: str
    from_at: datetime
    to_at: datetime
    n_hours: int
    cpu_s: float  # usage that the held source reports in these hours
    kept_cpu_s: float
    found_at: datetime
    decided_at: datetime | None
    decided_by: str
    reason: str
    can_merge: bool  # both have the same namespace and site, so that jobs can be told apart


_GROUPS = """
SELECT overlap.site, kept.slug, kept.name, held.slug, held.name, overlap.state, min(from_at), max(to_at),
    sum(extract(epoch FROM to_at - from_at) / 3600)::int8,
    COALESCE(sum(theirs.cpu_s), 0), COALESCE(sum(ours.cpu_s), 0), min(found_at), max(decided_at),
    COALESCE(max(person.username), ''), max(reason),
    bool_and(kept.namespace = held.namespace AND kept.origin = held.origin)
FROM usage_overlap AS overlap
JOIN usage_source AS kept ON kept.id = kept_id JOIN usage_source AS held ON held.id = held_id
LEFT JOIN accounts_user AS person ON person.id = decided_by_id
LEFT JOIN LATERAL (SELECT sum(cpu_s) AS cpu_s FROM usage_bucket AS bucket WHERE bucket.source_id = held_id
    AND bucket.site = overlap.site AND hour_at >= from_at AND hour_at < to_at) AS theirs ON true
LEFT JOIN LATERAL (SELECT sum(cpu_s) AS cpu_s FROM usage_bucket AS bucket WHERE bucket.source_id = kept_id
    AND bucket.site = overlap.site AND hour_at >= from_at AND hour_at < to_at) AS ours ON true
WHERE kept.archived_at IS NULL AND held.archived_at IS NULL
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY overlap.state <> 'held', min(found_at) DESC, 1, 2, 4 LIMIT %s
"""


def list_held_hours(*, actor: Actor) -> list[HeldHours]:
    """Held hours, undecided first, then newest first.

    Every signed-in person may list them: they name sources, no jobs.
    """
    if actor.user is not None and not actor.user.is_active:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, [MOST_LISTED_HOURS])
        return [HeldHours(*row) for row in cursor.fetchall()]
