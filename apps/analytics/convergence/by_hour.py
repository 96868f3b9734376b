"""Convergence by the hour, of the last seven days: a curve within a day, and all there is on the first one."""

from __future__ import annotations

from datetime import date
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.analytics.convergence.query import (
    WINDOWED,
    Counting,
    Found,
    Period,
    actual_share,
    days_before_entry,
    find_members_by_hour,
    leaves_of,
    target_share,
    today_of,
)
from apps.analytics.convergence.records import Convergence
from apps.analytics.convergence.selectors import compared_in, local_only, open_entry, published_in, way_to
from apps.analytics.convergence.verdict import Figures, Shares, slack_of, states_of, verdict, verdict_of_one
from apps.analytics.series.stored_series import series_state
from apps.core.errors import FieldProblem, Invalid
from apps.policies.selectors import READ
from apps.priorities.selectors.rows import PolicyView


def refuse_windowed(counting: Counting) -> None:
    if counting.view == WINDOWED:
        message = _("Windows are counted in days: by hour, use decayed or raw.")
        raise Invalid(message, code="invalid", fields=[FieldProblem("view", message)])


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
    quiet = found.told & series.competes & (series.used == 0) & (series.waited_core_s == 0)
    n_hidden = int((~found.told.any(axis=1)).sum()) if days.on else 0
    period, zone = _period_of(days.on, today_of(view.now)), ZoneInfo(settings.TIME_ZONE)
    state, compared = series_state(view.policy), compared_in(view, at, alone=alone)
    uids = [] if alone else [one.uid for one in found.members]
    place = {begins: n for n, begins in enumerate(days.on)}
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
        days=days,
        told=found.told,
        idle=quiet & series.knows_waiting,
        idle_inferred=quiet & ~series.knows_waiting,
        actual=actual,
        target=target,
        slack=slack,
        states=states,
        figures=Figures(),
        verdict=verdict_of_one(shares) if alone and not n_hidden else verdict(shares, n_not_told=n_hidden),
        published=published_in(view, period, place, zone) if days.on else [],
        local_only=local_only(view, compared, uids, state.local_since, period.to_on, zone) if days.on else [],
    )


def _period_of(on: tuple[date, ...], today: date) -> Period:
    """The days to which the hours belong."""
    first, last = (date(one.year, one.month, one.day) for one in (on[0], on[-1])) if on else (today, today)
    return Period(first, last)
