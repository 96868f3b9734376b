"""State that an open page depends on, as a tag for each part, and the data of the frame that polls for changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.plugins import plugins
from apps.policies.access.scope import require_policy
from apps.policies.selectors import get_policy
from apps.priorities.selectors import Freshness, freshness
from apps.priorities.serving import store
from apps.web.shell.places import counters
from apps.web.shell.requests import actor_of

SERIES = ("built_at", "through_on", "redo_from_on", "hours_through_at")  # of analytics_series
_READ_SERIES = f"SELECT {', '.join(SERIES)} FROM analytics_series WHERE policy_id = %s"  # noqa: S608 - constants only
# Each reads one end of an index, or an index of open rows only: pages poll every four seconds.
_AT_WORK = "(SELECT (count(*), sum(progress_done))::text FROM runs_run WHERE state = '{}' AND kind LIKE 'usage%%')"
_OPEN_CHANGES = """(SELECT (count(*), max(change_set.id), sum(change_set.version))::text
    FROM policies_policy AS policy JOIN policies_changeset AS change_set ON change_set.policy_id = policy.id
    WHERE change_set.state IN ('proposed', 'approved'))"""
_NEWEST_IMPORT = "(SELECT max(id)::text FROM usage_import)"
_OF_THE_CORE = {
    "work": [_NEWEST_IMPORT, _AT_WORK.format("queued"), _AT_WORK.format("running")],
    "todo": [_OPEN_CHANGES],
}


@cache
def marks_sql() -> Mapping[str, str]:
    """SQL of a text for each part of a page that numbers and their age don't decide: work and todo."""
    added = [plugin.page_marks() for plugin in plugins()]
    return {
        name: f"concat({', '.join([*(marks[name] for marks in added if name in marks), *own])})"
        for name, own in _OF_THE_CORE.items()
    }


@cache
def _frame_sql() -> str:
    counted = [f"ARRAY({counter.ids_sql})" for counter in counters().values()]
    return f"""
SELECT {", ".join([*counted, *(f"series.{name}" for name in SERIES), *marks_sql().values()])}
FROM (VALUES (%(policy)s::bigint)) AS shown (policy_id)
LEFT JOIN analytics_series AS series ON series.policy_id = shown.policy_id
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class PageState:
    """parts: tag of each part; tag: of all parts. computed_at: of the newest snapshot, None before the first."""

    tag: str
    parts: Mapping[str, str]
    revision: int
    computed_at: datetime | None


def get_page_state(
    *,
    policy_slug: str,
    actor: Actor,
    series: tuple[Any, ...] | None = None,
    marks: Sequence[str] | None = None,
    age: Freshness | None = None,
) -> PageState:
    """The state from memory and two small queries, none if the caller has run both.

    series: values of the columns of SERIES, all None if there is no row; marks: results of `marks_sql`, in its order.
    age: of the numbers of this policy, if the caller has it.
    """
    served = store.state()
    policy_id, head = _policy(policy_slug, actor, served.policies.get(policy_slug))
    snapshot = served.snapshots.get(policy_slug)
    served_at = (snapshot.snapshot_id, snapshot.as_of) if snapshot else None
    numbers = (policy_id, head, served_at, series or _read_series(policy_id))
    fresh = age or freshness(policy_slug=policy_slug, actor=actor)
    parts = {
        "numbers": _tag(numbers),  # changes only with the served snapshot, the revision or the daily series
        "fresh": _tag((fresh.revision, fresh.keys, [source.state for source in fresh.inputs])),
        **{name: _tag(mark) for name, mark in zip(marks_sql(), marks or _read_marks(), strict=True)},
    }
    return PageState(_tag(parts), parts, head, snapshot.computed_at if snapshot else None)


def _policy(slug: str, actor: Actor, row: store.PolicyRow | None) -> tuple[int, int]:
    """Id and newest revision of a policy that the actor may read. row: as served; not sufficient for a token."""
    if row is None or actor.token is not None:
        policy = get_policy(slug=slug, actor=actor)
        return policy.pk, policy.head_number
    require_policy(actor, slug)
    return row.id, row.head_number


def _read_series(policy_id: int) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_READ_SERIES, [policy_id])
        return cursor.fetchone() or (None,) * len(SERIES)


def _read_marks() -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(marks_sql().values())}".replace("%%", "%"))
        row: tuple[str, ...] = cursor.fetchone()
    return row


def _tag(of: Any) -> str:
    return sha256(repr(of).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class FrameRow:
    """Result of the one query that every page runs for its frame. Checks no permission.

    counted_ids: of the tabs that count something, by their routes. series and marks: see `get_page_state`.
    """

    counted_ids: Mapping[str, Sequence[int]]
    series: tuple[Any, ...]
    marks: tuple[str, ...]


def read_frame(*, user_id: int, policy_id: int | None, at: datetime) -> FrameRow:
    """policy_id: the policy that the page shows; None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(_frame_sql(), {"user": user_id, "policy": policy_id, "at": at})
        row = cursor.fetchone()
    n, m = len(counters()), len(counters()) + len(SERIES)
    return FrameRow(dict(zip(counters(), row, strict=False)), tuple(row[n:m]), tuple(row[m:]))


@dataclass(frozen=True, slots=True)
class LivePage:
    """URL that an open page polls, and the state that it shows; tag "" requests everything. age_s: of the snapshot."""

    url: str
    tag: str
    parts: str  # JSON of the tag of each part
    revision: int
    age_s: float | None


def live_page(request: HttpRequest, policy_slug: str, frame: FrameRow, age: Freshness) -> LivePage:
    actor = actor_of(request)
    state = get_page_state(policy_slug=policy_slug, actor=actor, series=frame.series, marks=frame.marks, age=age)
    is_older = _changed_since_start(request, policy_slug)
    tag, parts = ("", {}) if is_older else (state.tag, dict(state.parts))
    url = reverse("pages:live", kwargs={"policy": policy_slug})
    return LivePage(url, tag, json.dumps(parts), state.revision, age_of(state.computed_at))


def age_of(computed_at: datetime | None) -> float | None:
    """Age in seconds, at least 0; None without a snapshot."""
    return None if computed_at is None else max(round((clock.now() - computed_at).total_seconds(), 1), 0.0)


def _changed_since_start(request: HttpRequest, slug: str) -> bool:
    """Whether the page may show outdated numbers, because a new snapshot arrived while it was rendered."""
    began = getattr(request, "served_at_start", None)
    if began is None or settings.FAIRSHARE_SNAPSHOT_POLL_S <= 0:
        return False
    now = store.cached_state()
    has_same_snapshot = began.snapshots.get(slug) is now.snapshots.get(slug)
    return not (has_same_snapshot and began.policies.get(slug) == now.policies.get(slug))
