"""Convergence of an entry's children, or of the entry alone, for page, table and REST; trends of a list; weeks before a
request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings

from apps.accounts.actor import Actor
from apps.engine.target_state import state_of
from apps.policies.models import Revision
from apps.policies.selectors import READ, get_policy
from apps.policies.settings import tolerance_at
from apps.priorities.local_only import list_local_only_entries
from apps.priorities.request_evidence import RequestEvidence, Week
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.series.convergence import query as counts
from apps.series.convergence import share_methods
from apps.series.convergence.messages import Sentence, build_sentence
from apps.series.convergence.periods import Period, today_of
from apps.series.convergence.query import MemberSelection, days_before_entry, find_members, leaf_mask
from apps.series.convergence.records import ChildrenQuery, Convergence, Published
from apps.series.convergence.share_methods import ShareMethod, actual_share, target_share
from apps.series.convergence.verdict import (
    MeritFigures,
    Shares,
    day_states,
    half_band,
    measure,
    verdict,
    verdict_of_one,
)
from apps.series.daily_series import F8, DailySeries, Mask, SeriesState
from apps.series.days import day_at
from apps.series.stored_series import load_series, series_state
from apps.series.visible_days import as_visible
from apps.usage.quality.missing_days import list_gaps

_MOST_MARKED_REVISIONS = 400
TREND_DAYS = 14
WEEKS = (4, 3, 2, 1)


def _local_only(
    view: PolicyView, at: int, members: Sequence[UUID], since: Mapping[UUID, datetime], last: date
) -> list[Sentence]:
    """List messages about days computed from local usage only: of the children of entry `at`, or of entries below a
    member.

    since: start of the fallback by entry, as the days are built. Entries with local scope are left out. last: the last
    shown day, or start of the last shown hour.
    """
    if not since:
        return []
    zone, last_on = ZoneInfo(settings.TIME_ZONE), date(last.year, last.month, last.day)
    tree = view.tree
    reasons = {(fallback.uid, fallback.since): fallback.reason for fallback in list_local_only_entries(view.policy)}
    code, scopes = tree.effective_scopes()
    ancestors = {tree.uuid(i): at for i in (*tree.ancestors(at), at)}
    below = {uid: i for uid in members if (i := tree.index_of_uid(uid)) is not None and tree.n_children[i]}
    dated_messages = []
    for uid, since_at in since.items():
        index, on = ancestors.get(uid, below.get(uid)), day_at(since_at, zone).on
        if index is None or on > last_on or scopes[int(code[index])][0] != "global":
            continue
        dated_messages.append((on, _local_only_message(view, uid, on, reasons.get((uid, since_at), ""))))
    return [
        message
        for _on, message in sorted(dated_messages, key=lambda pair: (pair[0], str(pair[1].values.get("name", ""))))
    ]


def _local_only_message(view: PolicyView, uid: UUID, on: date, reason: str) -> Sentence:
    """reason: empty for a fallback that has ended but whose days aren't rebuilt yet."""
    i = view.tree.index_of_uid(uid)
    if i is None or not view.visibility.may_see(i):
        return build_sentence("local_only_above", since=on)
    name = view.tree.path(i)
    if not reason:
        return build_sentence("local_only_until", name=name, since=on)
    return build_sentence("local_only", name=name, since=on, reason=reason)


def get_series_state(*, policy_slug: str, actor: Actor, scope: str = READ) -> SeriesState:
    """Return which days are built; the actor needs to see the policy."""
    return series_state(get_policy(slug=policy_slug, actor=actor, scope=scope))


class OpenedEntry(NamedTuple):
    """An entry that the actor may see. at: its index; alone: it is shown itself, not its children."""

    view: PolicyView
    at: int
    alone: bool


def get_convergence(
    query: ChildrenQuery, *, policy_slug: str, actor: Actor, uid: UUID | None, scope: str = READ
) -> Convergence:
    """Return the convergence of the children of `uid` (None: the root) by day; a leaf is shown alone."""
    return load_convergence(
        open_entry(policy_slug=policy_slug, actor=actor, uid=uid, itself=query.itself, scope=scope), query, actor
    )


def load_convergence(entry: OpenedEntry, query: ChildrenQuery, actor: Actor) -> Convergence:
    """Load the days of an entry's children, or of the entry alone."""
    whole = query.period.starting_earlier(query.method.days_before)
    selection = find_members(entry.view, entry.at, whole, itself=entry.alone, against_today=query.against_today)
    return build_convergence(entry, selection, query.period, query.method, actor, against_today=query.against_today)


def build_convergence(
    entry: OpenedEntry,
    selection: MemberSelection,
    period: Period,
    method: ShareMethod,
    actor: Actor,
    *,
    against_today: bool = False,
) -> Convergence:
    """Build the result from the members found, with figures of merit and gaps."""
    view = entry.view
    shares, visible = _shares(selection, period, method, view)
    shown = replace(
        selection,
        series=counts.select_days(selection.series, _within(selection.series.days.on, period)),
        visible=visible,
    )
    days = shown.series.days
    return replace(
        assemble_convergence(entry, shown, shares, period, method),
        figures=measure(shares, days),
        gaps=_gaps(period, days.on, view.now, actor) if days.on else {},
        measured_against=view.revision if against_today else None,
    )


def assemble_convergence(
    entry: OpenedEntry, selection: MemberSelection, shares: Shares, period: Period, method: ShareMethod
) -> Convergence:
    """Build the result from the days or hours of `selection`, without figures of merit and gaps."""
    view, at, alone = entry
    series, on, state = selection.series, selection.series.days.on, series_state(view.policy)
    quiet = selection.visible & series.competes & (series.used == 0) & (series.waited_core_s == 0)
    n_hidden = int((~selection.visible.any(axis=1)).sum()) if on else 0
    below = [] if alone else [member.uid for member in selection.members]
    compared = compared_group(view, at, alone=alone)
    return Convergence(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        settings=view.settings,
        entry=view.row(at),
        ancestors=visible_ancestors(view, at),
        itself=alone,
        period=period,
        method=method,
        state=state,
        members=selection.members,
        n_all=selection.n_all,
        days=series.days,
        visible=selection.visible,
        idle=quiet & series.knows_waiting,
        idle_inferred=quiet & ~series.knows_waiting,
        actual=shares.actual,
        target=shares.target,
        slack=shares.slack,
        states=shares.states,
        figures=MeritFigures(),
        verdict=verdict_of_one(shares) if alone and not n_hidden else verdict(shares, n_hidden=n_hidden),
        published=published_in(view, period, {begins: index for index, begins in enumerate(on)}),
        local_only=_local_only(view, compared, below, state.local_since, on[-1]) if on else [],
    )


def open_entry(*, policy_slug: str, actor: Actor, uid: UUID | None, itself: bool, scope: str) -> OpenedEntry:
    """Open the policy and find the entry; without uid the root, or the subtree that a token is restricted to.

    A leaf is always shown alone.
    """
    view = open_view(policy_slug=policy_slug, actor=actor, scope=scope)
    if uid is None:
        uid = actor.top_uid
    at = view.visibility.require(0) if uid is None else view.require(uid)
    return OpenedEntry(view, at, itself or not len(view.tree.children(at)))


def visible_ancestors(view: PolicyView, at: int) -> list[EntryRow]:
    return view.rows(i for i in view.tree.ancestors(at) if view.visibility.may_see(i))


def compared_group(view: PolicyView, at: int, *, alone: bool) -> int:
    """Return the entry whose children are compared: for an entry shown alone, its parent."""
    return max(int(view.tree.parent[at]), 0) if alone else at


def _within(on: Sequence[date], period: Period) -> Mask:
    return np.array([period.from_on <= day <= period.to_on for day in on], dtype=np.bool_)


def _shares(selection: MemberSelection, period: Period, method: ShareMethod, view: PolicyView) -> tuple[Shares, Mask]:
    shown, actual, target, visible = _numbers(selection, period, method)
    slack = half_band(target, view.settings.tolerance, leaf_mask(selection.members))
    states = day_states(actual, target, slack, shown, visible, days_before_entry(view.policy, shown))
    names = [member.name for member in selection.members]
    return Shares(names, shown.days.on, actual, target, slack, states), visible


def _numbers(selection: MemberSelection, period: Period, method: ShareMethod) -> tuple[DailySeries, F8, F8, Mask]:
    """Return the series of the period, their actual and target shares, and which days are visible.

    Days before the period are used for windows only.
    """
    series, visible = selection.series, selection.visible
    if method.view == counts.WINDOWED:
        visible = share_methods.visible_windows(visible, method.window_days)
    keep = _within(series.days.on, period)
    actual = share_methods.actual_share(series, method)[:, keep]
    visible = visible[:, keep]
    shown = counts.select_days(series, keep)
    target = share_methods.target_share(shown, method.of)
    return shown, np.where(visible, actual, np.nan), target, visible


def published_in(view: PolicyView, period: Period, index: Mapping[date, int]) -> list[Published]:
    """List revisions published in the period, newest last, limited to the newest few hundred.

    index: of each day, or of the start of each hour, among the points.
    """
    zone = ZoneInfo(settings.TIME_ZONE)
    revisions = Revision.objects.filter(
        policy=view.policy,
        published_at__gte=datetime.combine(period.from_on, datetime.min.time(), zone),
        published_at__lt=datetime.combine(period.to_on, datetime.max.time(), zone),
    ).order_by("-number")
    published = []
    for number, at in revisions.values_list("number", "published_at")[:_MOST_MARKED_REVISIONS]:
        here = at.astimezone(zone)
        hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        published.append(Published(number, at, here.date(), index.get(hour, index.get(here.date(), -1))))
    return published[::-1]


def _gaps(period: Period, on: Sequence[date], now: datetime, actor: Actor) -> Mapping[date, Sequence[str]]:
    first, last = max(period.from_on, on[0]), min(period.to_on, on[-1])
    return list_gaps(from_on=first, to_on=last, at=now, zone=ZoneInfo(settings.TIME_ZONE), actor=actor)


@dataclass(frozen=True, slots=True)
class Trend:
    """Recent shares of the parent or the total, oldest first; NaN where unknown or hidden. target: the last one."""

    actual: tuple[float, ...]
    target: float


def load_trends(view: PolicyView, uids: Iterable[UUID], *, of: str) -> dict[UUID, Trend]:
    """Load decayed shares by entry, for entries that have days. Empty if the view shows a past time."""
    state = series_state(view.policy)
    days = list(uids)
    if state.through_on is None or view.asked is not None or not days:
        return {}
    from_on = state.through_on - timedelta(days=TREND_DAYS - 1)
    series = load_series(view.policy, days, from_on=from_on, to_on=state.through_on)
    if not series.days.on:
        return {}
    series, visible = as_visible(series, view=view)
    actual = np.where(visible, actual_share(series, ShareMethod(of=of)), np.nan)
    target = target_share(series, of)
    return {
        uid: Trend(tuple(actual[row].tolist()), float(target[row, -1]))
        for row, uid in enumerate(series.uids)
        if np.isfinite(actual[row]).any()
    }


def list_weeks(evidence: RequestEvidence, *, actor: Actor) -> list[Week]:
    """List the decayed share of the entry of an open request at the end of the day 4, 3, 2 and 1 weeks ago, and now.

    Days that aren't built, are hidden, or precede the entry are left out.
    """
    if evidence.entry is None or evidence.now is None:
        return []
    view, at, _alone = open_entry(
        policy_slug=evidence.change_set.policy.slug, actor=actor, uid=evidence.entry.uid, itself=True, scope=READ
    )
    today = today_of(view.now)
    days = [today - timedelta(weeks=weeks) for weeks in WEEKS]
    period = Period(days[0], days[-1])
    shown, actual, target, visible = _numbers(find_members(view, at, period, itself=True), period, ShareMethod())
    is_known = visible & shown.competes & ~days_before_entry(view.policy, shown)
    past_weeks = []
    for day, on in enumerate(shown.days.on):
        if on in days and is_known[0, day]:
            share = float(np.nan_to_num(actual[0, day]))  # 0 without any usage, as in a snapshot
            state = state_of(
                target=float(target[0, day]),
                actual=share,
                has_usage=bool(shown.decayed[0, day] > 0),
                has_demand=bool(shown.waited_core_s[0, day] > 0),
                tolerance=tolerance_at(view.settings.tolerance, not view.tree.n_children[at]),
            )
            ended_at = datetime.fromtimestamp(float(shown.days.ends_s[day]), UTC)
            past_weeks.append(Week(ended_at, float(target[0, day]), share, state))
    return [*past_weeks, evidence.now]
