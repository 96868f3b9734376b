"""Convergence of one entry's children, or of itself: one call for page, table and REST; and trends of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings

from apps.accounts.actor import Actor
from apps.analytics.convergence import query as counts
from apps.analytics.convergence.messages import Sentence, say
from apps.analytics.convergence.query import (
    Counting,
    Found,
    Member,
    Period,
    actual_share,
    days_before_entry,
    find_members,
    leaves_of,
    target_share,
    today_of,
)
from apps.analytics.convergence.records import Convergence, Published, order_of
from apps.analytics.convergence.verdict import Figures, Shares, measure, slack_of, states_of, verdict, verdict_of_one
from apps.analytics.series.daily_series import F8, DailySeries, Mask, SeriesState, day_at
from apps.analytics.series.stored_series import load_series, series_state
from apps.analytics.series.visible_days import as_visible
from apps.policies.models import Revision
from apps.policies.selectors import READ, get_policy
from apps.policies.settings import tolerance_at
from apps.priorities.change_effects import RequestEvidence, Week
from apps.priorities.local_only import list_local_only_entries
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.snapshots import state_of
from apps.usage.quality.coverage import list_gaps


def _local_only(
    view: PolicyView, at: int, members: Sequence[UUID], since: Mapping[UUID, datetime], last: date
) -> list[Sentence]:
    """Of the children of the entry `at`, and of what is below each member; `since`: as the days are built.

    Entries with local scope are left out. last: the day, or the begin of the hour, after which nothing is shown.
    """
    if not since:
        return []
    zone, last_on = ZoneInfo(settings.TIME_ZONE), date(last.year, last.month, last.day)
    tree, reasons = view.tree, {(one.uid, one.since): one.reason for one in list_local_only_entries(view.policy)}
    code, scopes = tree.effective_scopes()
    above = {tree.uuid(i): at for i in (*tree.ancestors(at), at)}
    below = {uid: i for uid in members if (i := tree.index_of_uid(uid)) is not None and tree.n_children[i]}
    found = []
    for uid, begun in since.items():
        place, on = above.get(uid, below.get(uid)), day_at(begun, zone).on
        if place is None or on > last_on or scopes[int(code[place])][0] != "global":
            continue
        found.append((on, _said(view, uid, on, reasons.get((uid, begun), ""))))
    return [said for _on, said in sorted(found, key=lambda one: (one[0], str(one[1].values.get("name", ""))))]


def _said(view: PolicyView, uid: UUID, on: date, reason: str) -> Sentence:
    """reason: "" of one that is over, whose days aren't worked out again yet."""
    i = view.tree.index_of_uid(uid)
    if i is None or not view.visibility.may_see(i):
        return say("local_only_above", since=on)
    name = view.tree.path(i)
    if not reason:
        return say("local_only_until", name=name, since=on)
    return say("local_only", name=name, since=on, reason=reason)


_MOST_REVISIONS = 400


def order_children(view: PolicyView, at: int, period: Period, counting: Counting) -> list[Member]:
    """The children of the entry `at` in the order of their `Convergence`, without all else that it says."""
    found = find_members(view, at, period.starting_earlier(counting.days_before))
    _shown, actual, target, _told = _numbers(found, period, counting)
    return [found.members[row] for row in order_of(found.members, actual - target)]


def get_series_state(*, policy_slug: str, actor: Actor, scope: str = READ) -> SeriesState:
    """Which days there are, for who may see the policy."""
    return series_state(get_policy(slug=policy_slug, actor=actor, scope=scope))


def get_convergence(
    *,
    policy_slug: str,
    actor: Actor,
    uid: UUID | None = None,
    itself: bool = False,
    period: Period,
    counting: Counting,
    against_today: bool = False,
    scope: str = READ,
) -> Convergence:
    """`uid`: whose children, the root's by default; a leaf, or `itself`, is shown alone.

    against_today: all days are measured against the head, and not each against the revision of its end.
    """
    view, at, alone = open_entry(policy_slug=policy_slug, actor=actor, uid=uid, itself=itself, scope=scope)
    whole = period.starting_earlier(counting.days_before)
    found = find_members(view, at, whole, itself=alone, against_today=against_today)
    return make_convergence(view, at, alone, found, period, counting, actor, against_today=against_today)


def make_convergence(
    view: PolicyView,
    at: int,
    alone: bool,
    found: Found,
    period: Period,
    counting: Counting,
    actor: Actor,
    *,
    against_today: bool = False,
) -> Convergence:
    """What is known of the members that were found. at: the entry that the page is about."""
    shares, told = _shares(found, period, counting, view)
    shown = replace(found, series=counts.cut(found.series, _within(found.series.days.on, period)), told=told)
    days = shown.series.days
    return replace(
        put_together(view, at, alone, shown, shares, period, counting),
        figures=measure(shares, days),
        gaps=_gaps(period, days.on, view.now, actor) if days.on else {},
        measured_against=view.revision if against_today else None,
    )


def put_together(
    view: PolicyView, at: int, alone: bool, found: Found, shares: Shares, period: Period, counting: Counting
) -> Convergence:
    """Of days or of hours, those that `found` has; without figures of merit and gaps."""
    series, on, state = found.series, found.series.days.on, series_state(view.policy)
    quiet = found.told & series.competes & (series.used == 0) & (series.waited_core_s == 0)
    n_hidden = int((~found.told.any(axis=1)).sum()) if on else 0
    below = [] if alone else [one.uid for one in found.members]
    compared = compared_in(view, at, alone=alone)
    return Convergence(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        settings=view.settings,
        entry=view.row(at),
        way=way_to(view, at),
        itself=alone,
        period=period,
        counting=counting,
        state=state,
        members=found.members,
        n_all=found.n_all,
        days=series.days,
        told=found.told,
        idle=quiet & series.knows_waiting,
        idle_inferred=quiet & ~series.knows_waiting,
        actual=shares.actual,
        target=shares.target,
        slack=shares.slack,
        states=shares.states,
        figures=Figures(),
        verdict=verdict_of_one(shares) if alone and not n_hidden else verdict(shares, n_not_told=n_hidden),
        published=published_in(view, period, {begins: place for place, begins in enumerate(on)}),
        local_only=_local_only(view, compared, below, state.local_since, on[-1]) if on else [],
    )


def open_entry(
    *, policy_slug: str, actor: Actor, uid: UUID | None, itself: bool, scope: str
) -> tuple[PolicyView, int, bool]:
    """The policy, the entry's index, and whether it is shown alone."""
    view = open_view(policy_slug=policy_slug, actor=actor, scope=scope)
    if uid is None and actor.token is not None:
        uid = actor.token.subtree_uid  # what it is bound to is the whole for it
    at = view.visibility.require(0) if uid is None else view.require(uid)
    return view, at, itself or not len(view.tree.children(at))


def way_to(view: PolicyView, at: int) -> list[EntryRow]:
    return view.rows(i for i in view.tree.ancestors(at) if view.visibility.may_see(i))


def compared_in(view: PolicyView, at: int, *, alone: bool) -> int:
    """The entry whose children are compared: an entry alone is one of its parent's."""
    return max(int(view.tree.parent[at]), 0) if alone else at


def _within(on: Sequence[date], period: Period) -> Mask:
    return np.array([period.from_on <= day <= period.to_on for day in on], dtype=np.bool_)


def _shares(found: Found, period: Period, counting: Counting, view: PolicyView) -> tuple[Shares, Mask]:
    """What is judged and drawn."""
    shown, actual, target, told = _numbers(found, period, counting)
    slack = slack_of(target, view.settings.tolerance, leaves_of(found.members))
    states = states_of(actual, target, slack, shown, told, days_before_entry(view.policy, shown))
    names = [member.name for member in found.members]
    return Shares(names, shown.days.on, actual, target, slack, states), told


def _numbers(found: Found, period: Period, counting: Counting) -> tuple[DailySeries, F8, F8, Mask]:
    """The days of the period, their actual and target shares, and which are visible; the days before count for
    windows alone."""
    series, told = found.series, found.told
    if counting.view == counts.WINDOWED:
        told = counts.visible_windows(told, counting.window_days)
    keep = _within(series.days.on, period)
    actual = counts.actual_share(series, counting)[:, keep]
    told = told[:, keep]
    shown = counts.cut(series, keep)
    target = counts.target_share(shown, counting.of)
    return shown, np.where(told, actual, np.nan), target, told


def published_in(view: PolicyView, period: Period, place: Mapping[date, int]) -> list[Published]:
    """Newest last; of very many the newest few hundred. place: of each day, or of the begin of each hour."""
    zone = ZoneInfo(settings.TIME_ZONE)
    revisions = Revision.objects.filter(
        policy=view.policy,
        published_at__gte=datetime.combine(period.from_on, datetime.min.time(), zone),
        published_at__lt=datetime.combine(period.to_on, datetime.max.time(), zone),
    ).order_by("-number")
    found = []
    for number, at in revisions.values_list("number", "published_at")[:_MOST_REVISIONS]:
        here = at.astimezone(zone)
        hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        found.append(Published(number, at, here.date(), place.get(hour, place.get(here.date(), -1))))
    return found[::-1]


def _gaps(period: Period, on: Sequence[date], now: datetime, actor: Actor) -> Mapping[date, Sequence[str]]:
    first, last = max(period.from_on, on[0]), min(period.to_on, on[-1])
    return list_gaps(from_on=first, to_on=last, at=now, zone=ZoneInfo(settings.TIME_ZONE), actor=actor)


# --- Trends -----------------------------------------------------------------------------------------------------------
DAYS = 14


@dataclass(frozen=True, slots=True)
class Trend:
    """Fractions of the parent (or of the total), oldest first; NaN where unknown or hidden. `target`: the last."""

    actual: tuple[float, ...]
    target: float


def load_trends(view: PolicyView, uids: Iterable[UUID], *, of: str = "parent", n_days: int = DAYS) -> dict[UUID, Trend]:
    """By entry, of those that have days: decayed, as priorities count. Nothing while a view shows the past."""
    state = series_state(view.policy)
    wanted = list(uids)
    if state.through_on is None or view.asked is not None or not wanted:
        return {}
    from_on = state.through_on - timedelta(days=n_days - 1)
    series = load_series(view.policy, wanted, from_on=from_on, to_on=state.through_on)
    if not series.days.on:
        return {}
    series, told = as_visible(series, view=view)
    actual = np.where(told, actual_share(series, Counting(of=of)), np.nan)
    target = target_share(series, of)
    return {
        uid: Trend(tuple(actual[row].tolist()), float(target[row, -1]))
        for row, uid in enumerate(series.uids)
        if np.isfinite(actual[row]).any()
    }


# --- Weeks before a request -------------------------------------------------------------------------------------------
WEEKS = (4, 3, 2, 1)


def list_weeks(evidence: RequestEvidence, *, actor: Actor) -> list[Week]:
    """The entry of an open request at the end of the day so many weeks ago, oldest first, and now.

    Decayed, as priorities count. Without days that aren't computed, that are hidden, or from before the entry.
    """
    if evidence.entry is None or evidence.now is None:
        return []
    view, at, _alone = open_entry(
        policy_slug=evidence.change_set.policy.slug, actor=actor, uid=evidence.entry.uid, itself=True, scope=READ
    )
    today = today_of(view.now)
    wanted = [today - timedelta(weeks=weeks) for weeks in WEEKS]
    period = Period(wanted[0], wanted[-1])
    shown, actual, target, told = _numbers(find_members(view, at, period, itself=True), period, Counting())
    is_known = told & shown.competes & ~days_before_entry(view.policy, shown)
    found = []
    for day, on in enumerate(shown.days.on):
        if on in wanted and is_known[0, day]:
            share = float(np.nan_to_num(actual[0, day]))  # nobody used anything: 0, as in a snapshot
            state = state_of(
                target=float(target[0, day]),
                actual=share,
                has_usage=bool(shown.decayed[0, day] > 0),
                has_demand=bool(shown.waited_core_s[0, day] > 0),
                tolerance=tolerance_at(view.settings.tolerance, not view.tree.n_children[at]),
            )
            ended_at = datetime.fromtimestamp(float(shown.days.ends_s[day]), UTC)
            found.append(Week(ended_at, float(target[0, day]), share, state))
    return [*found, evidence.now]
