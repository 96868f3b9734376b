"""The numbers of a figure of convergence: entries selected at any depth, up to the newest snapshot; and by the hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.request_cache import once_per_request
from apps.analytics.convergence.query import (
    DECAYED,
    TOTAL,
    Counting,
    Found,
    Period,
    actual_share,
    days_before_entry,
    find_members,
    find_members_by_hour,
    find_selection,
    find_selection_by_hour,
    leaves_of,
    refuse_windowed,
    target_share,
    today_of,
)
from apps.analytics.convergence.records import ChildrenQuery, Convergence, Published, Selection, SelectionQuery
from apps.analytics.convergence.selectors import (
    make_convergence,
    open_entry,
    order_children,
    published_in,
    put_together,
)
from apps.analytics.convergence.verdict import Shares, slack_of, states_of
from apps.analytics.series.daily_series import F8, Mask, SeriesDays
from apps.core.errors import FieldProblem, Invalid
from apps.policies.selectors import READ
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.served_snapshot import ServedSnapshot

# --- Newest snapshot --------------------------------------------------------------------------------------------------
_INSIDE = 1 + 1e-9


def get_convergence_until_now(
    *,
    policy_slug: str,
    actor: Actor,
    uid: UUID | None,
    itself: bool = False,
    period: Period,
    counting: Counting,
    by_hour: bool = False,
    against_today: bool = False,
    scope: str = READ,
) -> Convergence:
    """As get_convergence, with the newest snapshot as the last point.

    Read once a request, so that a page and its figures agree.
    """
    user = actor.user
    who = (None if user is None else user.pk, actor.token, scope)
    key = ("convergence", policy_slug, uid, itself, period, counting, by_hour, against_today, *who)

    def read() -> Convergence:
        view, at, alone = open_entry(policy_slug=policy_slug, actor=actor, uid=uid, itself=itself, scope=scope)
        if by_hour:
            refuse_windowed(counting)
            found = convergence_by_hour(view, at, alone, find_members_by_hour(view, at, itself=alone), counting)
        else:
            whole = period.starting_earlier(counting.days_before)
            members = find_members(view, at, whole, itself=alone, against_today=against_today)
            found = make_convergence(view, at, alone, members, period, counting, actor, against_today=against_today)
        return with_latest(found, view)

    return once_per_request(key, read)


def with_latest(found: Convergence, view: PolicyView) -> Convergence:
    """`found` with the shares of the view's snapshot as its last point, where that is younger than the last day.

    Shares as priorities count them alone: a window or a single day has no value before the day is over. What the
    view's actor may not read is NaN there, as on days.
    """
    on = _place_of(found, view.as_of)
    if on is None or view.snapshot is None:
        return found
    uids = [member.uid for member in found.members]
    target, actual, used, waits = _shares_of(view, view.snapshot, uids, found.counting)
    told = np.isfinite(actual)
    slack = slack_of(target, found.settings.tolerance, leaves_of(found.members))
    states = _states_of(actual, target, slack, used, waits)
    idle = told & ~used & ~waits
    last = view.snapshot.as_of.timestamp()
    days = found.days
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
        "told": told,
        "idle": idle,
        "idle_inferred": np.zeros_like(idle),
    }
    wider: dict[str, Any] = {name: np.column_stack([getattr(found, name), column]) for name, column in columns.items()}
    published = [*found.published, *_published_since(found, view, on)]
    return replace(found, days=more, latest_at=view.snapshot.as_of, published=published, **wider)


def _published_since(found: Convergence, view: PolicyView, on: date) -> list[Published]:
    """Revisions of the day that isn't over, at the last point; those newer than its snapshot too."""
    zone, known = ZoneInfo(settings.TIME_ZONE), {one.revision for one in found.published}
    today = view.now.astimezone(zone).date()
    place = {on: len(found.on), today: len(found.on)}
    return [one for one in published_in(view, Period(today, today), place) if one.revision not in known]


def _place_of(found: Convergence, as_of: datetime | None) -> date | None:
    """The day, or the hour, to which the snapshot belongs; None where the figure doesn't reach it."""
    if as_of is None or not found.on or found.counting.view != DECAYED or found.measured_against is not None:
        return None
    here = as_of.astimezone(ZoneInfo(settings.TIME_ZONE))
    if found.is_by_hour:
        hour = here.replace(minute=0, second=0, microsecond=0)
        return hour if hour > found.on[-1] else None
    reaches_the_end = found.on[-1] == found.state.through_on
    return here.date() if reaches_the_end and here.date() > found.on[-1] else None


def _shares_of(
    view: PolicyView, snapshot: ServedSnapshot, uids: list[UUID], counting: Counting
) -> tuple[F8, F8, Mask, Mask]:
    """Target and actual, NaN where there is none or it may not be read; who used anything, and for whom jobs wait."""
    values = snapshot.values
    places = [view.tree.index_of_uid(uid) for uid in uids]
    here = np.array([-1 if i is None else i for i in places], np.int64)
    competes = np.array([i is not None and bool(view.competes[i]) for i in places], np.bool_)
    there = np.where(here >= 0, view.place[np.maximum(here, 0)], -1)
    known = competes & (there >= 0)
    known &= np.asarray(values.competes)[np.maximum(there, 0)]
    stated = view.target[1] if counting.of == TOTAL else view.target[0]
    used = snapshot.actual_global if counting.of == TOTAL else values.actual
    target = np.where(competes, stated[np.maximum(here, 0)], np.nan)
    actual = np.where(known, np.asarray(used)[np.maximum(there, 0)], np.nan)
    has_usage = known & (np.asarray(values.usage)[np.maximum(there, 0)] > 0)
    has_demand = known & np.asarray(values.has_demand)[np.maximum(there, 0)]
    return target, actual, has_usage, has_demand


def _states_of(actual: F8, target: F8, slack: F8, used: Mask, waits: Mask) -> Any:
    """Names as of days; who is under without a known reason is `inferred`."""
    with np.errstate(invalid="ignore"):
        off = actual - target
        states = np.where(off > 0, "over", np.where(used | waits, "inferred", "no_demand"))
        states = np.where(np.abs(off) <= slack * _INSIDE, "on", states)
        states = np.where((target > 0) & ~used & ~waits, "no_demand", states)
    return np.where(np.isfinite(actual), states, "")


# --- Selected entries -------------------------------------------------------------------------------------------------
USUAL_PICKS = 4
_MOST_OFFERED = 200


def get_selection(
    *,
    policy_slug: str,
    actor: Actor,
    picks: Sequence[str],
    period: Period,
    whole: Period,
    counting: Counting,
    below: UUID | None = None,
    by_hour: bool = False,
    scope: str = READ,
) -> Selection:
    """The days of `whole` of the picks, uids or paths; without any of the children of `below` that are farthest from
    their target at the end of `period`. By the hour there is one period, the last seven days.

    Raises Invalid alike for a missing entry and one hidden from the actor.
    """
    view, at, alone = open_entry(policy_slug=policy_slug, actor=actor, uid=below, itself=False, scope=scope)
    rows = [_require(view, text) for text in picks] or _usual(view, at, alone, period, counting, by_hour)
    if by_hour:
        found = convergence_by_hour(view, at, False, find_selection_by_hour(view, rows), counting)
    else:
        days_before = whole.starting_earlier(counting.days_before)
        found = make_convergence(view, at, False, find_selection(view, rows, days_before), whole, counting, actor)
    found = with_latest(replace(found, period=period), view)
    return Selection(found, [view.tree.path(i).strip("/") for i in rows])


def _require(view: PolicyView, text: str) -> int:
    try:
        i = view.tree.index_of_uid(UUID(text))
    except ValueError:
        i = view.tree.index_of_path("/" + text.strip().strip("/"))
    if i is None or i == 0 or not view.visibility.may_see(i):
        message = _("There is no entry “%(text)s” in this policy to compare.") % {"text": text[:80]}
        raise Invalid(message, fields=[FieldProblem("pick", message)])
    return i


def _usual(view: PolicyView, at: int, alone: bool, period: Period, counting: Counting, by_hour: bool) -> list[int]:
    """The four farthest from their target; an entry without children alone."""
    if alone:
        return [at] if at else []
    if by_hour:
        children = [i for i in view.visible_children(at) if view.competes[i]]
        return sorted(children, key=lambda i: -view.target[0][i])[:USUAL_PICKS]
    places = [view.tree.index_of_uid(member.uid) for member in order_children(view, at, period, counting)]
    return [i for i in places if i is not None][:USUAL_PICKS]


def list_paths(*, policy_slug: str, actor: Actor, below: UUID | None = None, scope: str = READ) -> list[str]:
    """Paths of entries that may be picked, those below the entry first by level, two hundred at most."""
    view, at, _alone = open_entry(policy_slug=policy_slug, actor=actor, uid=below, itself=False, scope=scope)
    found: list[int] = []
    level = [at]
    while level and len(found) < _MOST_OFFERED:
        level = [child for i in level for child in view.visible_children(i)]
        found += level
    return [view.tree.path(i).strip("/") for i in found[:_MOST_OFFERED]]


# --- Numbers ----------------------------------------------------------------------------------------------------------
def get_numbers(
    asked: ChildrenQuery | SelectionQuery, *, policy_slug: str, uid: UUID | None, actor: Actor, scope: str = READ
) -> Convergence | Selection:
    """Of the children of `uid`, the root's by default, or of the picks, the usual ones of which are below `uid`."""
    if isinstance(asked, SelectionQuery):
        return get_selection(
            policy_slug=policy_slug,
            actor=actor,
            picks=asked.picks,
            period=asked.period,
            whole=asked.whole,
            counting=asked.counting,
            below=uid,
            by_hour=asked.by_hour,
            scope=scope,
        )
    return get_convergence_until_now(
        policy_slug=policy_slug,
        actor=actor,
        uid=uid,
        itself=asked.itself,
        counting=asked.counting,
        period=asked.period,
        by_hour=asked.by_hour,
        against_today=asked.against_today,
        scope=scope,
    )


# --- By the hour ------------------------------------------------------------------------------------------------------
def get_convergence_by_hour(
    *,
    policy_slug: str,
    actor: Actor,
    uid: UUID | None = None,
    itself: bool = False,
    counting: Counting,
    scope: str = READ,
) -> Convergence:
    """As get_convergence: `on` are the instants at which hours begin. Figures are of days alone, and empty here.

    Needs the right to see names. Raises Invalid for windows.
    """
    refuse_windowed(counting)
    view, at, alone = open_entry(policy_slug=policy_slug, actor=actor, uid=uid, itself=itself, scope=scope)
    return convergence_by_hour(view, at, alone, find_members_by_hour(view, at, itself=alone), counting)


def convergence_by_hour(view: PolicyView, at: int, alone: bool, found: Found, counting: Counting) -> Convergence:
    """What is known of the members that were found. at: the entry that the page is about."""
    series, days = found.series, found.series.days
    target = target_share(series, counting.of)
    actual = np.where(found.told, actual_share(series, counting), np.nan)
    slack = slack_of(target, view.settings.tolerance, leaves_of(found.members))
    states = states_of(actual, target, slack, series, found.told, days_before_entry(view.policy, series))
    shares = Shares([member.name for member in found.members], days.on, actual, target, slack, states)
    period = _period_of(days.on, today_of(view.now))
    made = put_together(view, at, alone, found, shares, period, counting)
    return made if days.on else replace(made, published=[])


def _period_of(on: tuple[date, ...], today: date) -> Period:
    """The days to which the hours belong."""
    first, last = (date(one.year, one.month, one.day) for one in (on[0], on[-1])) if on else (today, today)
    return Period(first, last)
