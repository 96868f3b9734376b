"""Convergence for pages and figures: an entry's children or selected entries, up to the newest snapshot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings

from apps.accounts.actor import Actor
from apps.accounts.request_cache import once_per_request
from apps.engine.target_state import is_on_target
from apps.policies.selectors import READ
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.series.convergence.periods import Period, today_of
from apps.series.convergence.query import (
    DECAYED,
    TOTAL,
    MemberSelection,
    days_before_entry,
    find_hourly_members,
    leaf_mask,
)
from apps.series.convergence.records import ChildrenQuery, Convergence, Published
from apps.series.convergence.selectors import (
    OpenedEntry,
    assemble_convergence,
    load_convergence,
    open_entry,
    published_in,
)
from apps.series.convergence.share_methods import ShareMethod, actual_share, reject_windowed, target_share
from apps.series.convergence.verdict import Shares, day_states, half_band
from apps.series.daily_series import F8, Mask, SeriesDays


@dataclass(frozen=True, eq=False)
class Group:
    """The children of an entry, or the entry alone, as their reader sees them. before: days of the period before."""

    entry: OpenedEntry
    convergence: Convergence
    before: Convergence | None

    @property
    def view(self) -> PolicyView:
        return self.entry.view


def get_group(
    query: ChildrenQuery,
    *,
    policy_slug: str,
    uid: UUID | None,
    actor: Actor,
    scope: str = READ,
    before: Period | None = None,
) -> Group:
    """As get_convergence, with the newest snapshot as the last point; by the hour if the query asks for it.

    Cached for the request, so that a page and its figures agree.
    """
    user = actor.user
    reader = (None if user is None else user.pk, actor.token, scope)

    def read() -> Group:
        entry = open_entry(policy_slug=policy_slug, actor=actor, uid=uid, itself=query.itself, scope=scope)
        convergence = _hourly(entry, query.method) if query.by_hour else load_convergence(entry, query, actor)
        earlier = None if before is None else load_convergence(entry, replace(query, period=before), actor)
        return Group(entry, with_latest_snapshot(convergence, entry.view), earlier)

    return once_per_request(("convergence", policy_slug, uid, query, before, *reader), read)


def with_latest_snapshot(convergence: Convergence, view: PolicyView) -> Convergence:
    """Add the shares of the view's snapshot as the last point, if it is newer than the last day.

    Decayed shares only: a window or a single day has no value before the day has ended. Values that the view's actor
    may not read are NaN, as on days.
    """
    on = _point_of(convergence, view.as_of)
    if on is None or view.snapshot is None:
        return convergence
    uids = [member.uid for member in convergence.members]
    target, actual, used, waits = _shares_of(view, view.snapshot, uids, convergence.method)
    visible = np.isfinite(actual)
    slack = half_band(target, convergence.settings.tolerance, leaf_mask(convergence.members))
    states = _states_of(actual, target, slack, used, waits)
    idle = visible & ~used & ~waits
    last = view.snapshot.as_of.timestamp()
    days = convergence.days
    more = SeriesDays(
        (*days.on, on),
        np.append(days.ends_s, last),
        np.append(days.revision, view.snapshot.revision).astype(np.int32),
        np.append(days.is_before_first, False),
        np.append(days.root_used, 0.0),
        np.append(days.root_decayed, 0.0),
    )
    columns: dict[str, Any] = {
        "actual": actual,
        "target": target,
        "slack": slack,
        "states": states,
        "visible": visible,
        "idle": idle,
        "idle_inferred": np.zeros_like(idle),
    }
    wider: dict[str, Any] = {
        name: np.column_stack([getattr(convergence, name), column]) for name, column in columns.items()
    }
    published = [*convergence.published, *_published_since(convergence, view, on)]
    return replace(convergence, days=more, latest_at=view.snapshot.as_of, published=published, **wider)


def _published_since(convergence: Convergence, view: PolicyView, on: date) -> list[Published]:
    """List revisions of the unfinished day, including those newer than the snapshot."""
    zone, known = ZoneInfo(settings.TIME_ZONE), {row.revision for row in convergence.published}
    today = view.now.astimezone(zone).date()
    index_of_day = {on: len(convergence.on), today: len(convergence.on)}
    return [row for row in published_in(view, Period(today, today), index_of_day) if row.revision not in known]


def _point_of(convergence: Convergence, as_of: datetime | None) -> date | None:
    """Return the day, or the hour, of the snapshot; None if the snapshot is not part of the figure."""
    if (
        as_of is None
        or not convergence.on
        or convergence.method.view != DECAYED
        or convergence.measured_against is not None
    ):
        return None
    rows = as_of.astimezone(ZoneInfo(settings.TIME_ZONE))
    if convergence.is_by_hour:
        hour = rows.replace(minute=0, second=0, microsecond=0)
        return hour if hour > convergence.on[-1] else None
    ends_at_last_built_day = convergence.on[-1] == convergence.state.through_on
    return rows.date() if ends_at_last_built_day and rows.date() > convergence.on[-1] else None


def _shares_of(
    view: PolicyView, snapshot: ServedSnapshot, uids: list[UUID], method: ShareMethod
) -> tuple[F8, F8, Mask, Mask]:
    """Return target and actual (NaN if absent or hidden), which entries have usage, and which have waiting jobs."""
    values = snapshot.values
    indices = [view.tree.index_of_uid(uid) for uid in uids]
    rows = np.array([-1 if i is None else i for i in indices], np.int64)
    competes = np.array([i is not None and bool(view.competes[i]) for i in indices], np.bool_)
    snapshot_rows = np.where(rows >= 0, view.snapshot_index[np.maximum(rows, 0)], -1)
    known = competes & (snapshot_rows >= 0)
    known &= np.asarray(values.competes)[np.maximum(snapshot_rows, 0)]
    targets = view.target[1] if method.of == TOTAL else view.target[0]
    used = snapshot.actual_global if method.of == TOTAL else values.actual
    target = np.where(competes, targets[np.maximum(rows, 0)], np.nan)
    actual = np.where(known, np.asarray(used)[np.maximum(snapshot_rows, 0)], np.nan)
    has_usage = known & (np.asarray(values.usage)[np.maximum(snapshot_rows, 0)] > 0)
    has_demand = known & np.asarray(values.has_demand)[np.maximum(snapshot_rows, 0)]
    return target, actual, has_usage, has_demand


def _states_of(actual: F8, target: F8, slack: F8, used: Mask, waits: Mask) -> Any:
    """Return states as for days. An entry below target is `inferred`: the snapshot doesn't show why."""
    with np.errstate(invalid="ignore"):
        off = actual - target
        states = np.where(off > 0, "over", np.where(used | waits, "inferred", "no_demand"))
        states = np.where(is_on_target(actual, target, slack), "on", states)
        states = np.where((target > 0) & ~used & ~waits, "no_demand", states)
    return np.where(np.isfinite(actual), states, "")


def get_hourly_convergence(
    *, policy_slug: str, actor: Actor, uid: UUID | None = None, method: ShareMethod, scope: str = READ
) -> Convergence:
    """As get_convergence, by the hour: `on` holds the instants at which hours start, and `figures` are empty.

    Hours are visible only of entries visible in full. Raises Invalid for windows.
    """
    return _hourly(open_entry(policy_slug=policy_slug, actor=actor, uid=uid, itself=False, scope=scope), method)


def _hourly(entry: OpenedEntry, method: ShareMethod) -> Convergence:
    reject_windowed(method)
    members = find_hourly_members(entry.view, entry.at, itself=entry.alone)
    return build_hourly_convergence(entry, members, method)


def build_hourly_convergence(entry: OpenedEntry, selection: MemberSelection, method: ShareMethod) -> Convergence:
    """Build the result from the members found."""
    view = entry.view
    series, days = selection.series, selection.series.days
    target = target_share(series, method.of)
    actual = np.where(selection.visible, actual_share(series, method), np.nan)
    slack = half_band(target, view.settings.tolerance, leaf_mask(selection.members))
    states = day_states(actual, target, slack, series, selection.visible, days_before_entry(view.policy, series))
    shares = Shares([member.name for member in selection.members], days.on, actual, target, slack, states)
    period = _period_of(days.on, today_of(view.now))
    made = assemble_convergence(entry, selection, shares, period, method)
    return made if days.on else replace(made, published=[])


def _period_of(on: tuple[date, ...], today: date) -> Period:
    """Return the days that contain the hours."""
    first, last = (date(day.year, day.month, day.day) for day in (on[0], on[-1])) if on else (today, today)
    return Period(first, last)
