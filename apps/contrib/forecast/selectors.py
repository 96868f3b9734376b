"""Forecasts that an actor may see: level by level from the root to an account's entry, with curves and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.accounts.request_cache import once_per_request
from apps.contrib.forecast.entry_forecast import (
    DailyUsage,
    DatedRecoveryRange,
    FactorAhead,
    LevelState,
    Outlook,
    curve_of,
    factor_ahead,
    forecast_level,
    needs_hourly_usage,
)
from apps.contrib.forecast.past_usage import DAY_S, LevelPast, PastShare, competitors, load_past
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.engine.errors import PackageFailed
from apps.engine.explain import RecoveryRange
from apps.engine.explain.contrast import build_minimal_tree
from apps.engine.target_state import slack_of
from apps.explain.contrasts import result_of
from apps.explain.path import Walk, walk_to
from apps.policies.models import Policy
from apps.policies.selectors import get_policy, list_policies
from apps.policies.settings import tolerance_at
from apps.policies.tree.columns import Mask
from apps.priorities.metering import has_known_decay, window_of
from apps.priorities.projections import HORIZON_DAYS, CurvePoint, PaceDays
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.sentences import SCENARIO, TEXTS, Message, band_messages, build_message, text_of
from apps.priorities.sentences.numbers import date
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountNames, AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import names_in, numbers_visible_in, own_queries

F8 = npt.NDArray[np.float64]
HORIZON_S = HORIZON_DAYS * DAY_S
_SCOPES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


def level_sentences(
    outlook: Outlook, *, name: str, parent: str, window_s: float | None, as_of: datetime
) -> list[Message]:
    """Return the messages about a level, the one that answers "when" first. An assumed share is mentioned."""
    messages = _sentences(outlook, name=name, parent=parent, window_s=window_s, as_of=as_of)
    if not outlook.is_scenario or outlook.state.group_usage <= 0:
        return messages
    if any(SCENARIO + message.key in TEXTS for message in messages):
        return [
            Message(SCENARIO + message.key, message.values) if SCENARIO + message.key in TEXTS else message
            for message in messages
        ]
    return [build_message("forecast.scenario", name=name, parent=parent, share=outlook.share), *messages]


def _sentences(outlook: Outlook, *, name: str, parent: str, window_s: float | None, as_of: datetime) -> list[Message]:
    state, recoveries = outlook.state, outlook.to_target
    facts: dict[str, Any] = {
        "name": name,
        "parent": parent,
        "actual": state.actual,
        "target": state.target,
        "share": outlook.share,
        "horizon_s": HORIZON_S,
    }
    if recoveries.middle.outcome == "recovers":
        facts |= _times(recoveries, as_of)
    if state.group_usage <= 0:
        return [build_message("forecast.nothing_used", **facts)]
    if state.edge is None:
        if state.is_idle:
            return [build_message("forecast.idle", **facts)]
        return [build_message("forecast.on_target", **facts), *band_messages(state.actual, state.target, state.slack)]
    if not outlook.is_known:
        return [build_message("forecast.no_whole_day", **facts)]
    if recoveries.middle.outcome == "never_if_nobody_runs" and outlook.days is not None:
        return [_without_jobs(outlook.days, facts, window_s)]
    return (_over if state.actual > state.target else _under)(recoveries, facts)


def _over(recoveries: RecoveryRange, facts: dict[str, Any]) -> list[Message]:
    outcome = recoveries.middle.outcome
    if outcome == "recovers":
        if recoveries.latest.in_s is None:
            return [build_message("forecast.recovers_or_not", **facts)]
        return [build_message("forecast.recovers_about" if "latest" not in facts else "forecast.recovers", **facts)]
    return [build_message(f"forecast.{outcome}", **facts)]


def _under(recoveries: RecoveryRange, facts: dict[str, Any]) -> list[Message]:
    outcome = recoveries.middle.outcome
    if outcome == "recovers":
        return [build_message("forecast.gives_way" if "latest" in facts else "forecast.gives_way_about", **facts)]
    return [build_message("forecast.stays_under", **facts)]


def _without_jobs(days: PaceDays, facts: dict[str, Any], window_s: float | None) -> Message:
    """The message for a level without usage on any of the days from which its pace is measured."""
    measured = {"n": days.n, "at": days.until}
    if window_s is None:
        return build_message("forecast.never_if_nobody_runs", **facts, **measured)
    return build_message("forecast.never_within_window", **facts, **measured, window_s=window_s)


def _times(recoveries: RecoveryRange, as_of: datetime) -> dict[str, float | datetime | None]:
    """Durations and instants of the recovery; earliest and latest only where they are other days than each other."""
    soonest_s, in_s, latest_s = (each.in_s for each in (recoveries.soonest, recoveries.middle, recoveries.latest))
    times: dict[str, float | datetime | None] = {"in_s": in_s, "soonest_s": soonest_s, "latest_s": latest_s}
    times["on"] = as_of + timedelta(seconds=in_s or 0.0)
    if soonest_s and latest_s:
        earliest, latest = (as_of + timedelta(seconds=each) for each in (soonest_s, latest_s))
        if date(earliest) != date(latest):
            times |= {"earliest": earliest, "latest": latest}
    return times


def at_target_messages(snapshot: ServedSnapshot, leaf: int, level: int) -> list[Message]:
    """Return the message about the factor at target; none if levels decide, or if there is no such factor."""
    if snapshot.order.explanation.kind != "ratio":
        return []
    try:
        factor = factor_at_target(snapshot, leaf, level)
    except PackageFailed:
        return []
    if factor is None:
        return []
    facts = {"factor": factor, "other_factor": float(snapshot.values.factor[leaf])}
    return [build_message("forecast.factor_at_target", name=snapshot.tree.name[level], **facts)]


def factor_at_target(snapshot: ServedSnapshot, leaf: int, level: int) -> float | None:
    """Return the factor of `leaf` if entry `level` on its path had the usage that brings it to target, siblings
    unchanged.

    With own usage u of group usage G: u' = t · (G − u) / (1 − t), in proportion for all entries below. Computed by the
    algorithm on the path and its siblings.
    """
    values = snapshot.values
    own, actual, target = (float(column[level]) for column in (values.usage, values.actual, values.target))
    if not (values.has_factor[leaf] and 0 < actual < 1 and 0 < target < 1) or own <= 0:
        return None
    wanted = target * (own / actual - own) / (1.0 - target)
    small = build_minimal_tree(result_of(snapshot), leaf, level)
    if wanted <= own:
        computed = small.with_less_usage(level, own - wanted)
    elif leaf == level:
        computed = small.with_more_usage(level, wanted - own)
    else:
        return None  # the distribution of additional usage below it is unknown
    return float(computed.factor[small.place(leaf)])


@dataclass(frozen=True, eq=False)
class ForecastLevel:
    """One level; `outlook` is None if it doesn't compete, or if recent usage is unknown."""

    as_of: datetime
    entry: int
    uid: UUID
    name: str
    parent_name: str
    path: str
    target: float | None
    actual: float | None
    outlook: Outlook | None
    past: LevelPast | None
    messages: Sequence[Message]

    @property
    def past_shares(self) -> Sequence[PastShare]:
        return () if self.past is None else self.past.past_shares

    @property
    def own_daily(self) -> F8:
        """Usage by day."""
        return np.zeros(0) if self.past is None else self.past.own_daily

    @property
    def n_days(self) -> int:
        """Number of days from which the pace is estimated."""
        return 0 if self.outlook is None else len(self.outlook.daily_group)

    @property
    def daily_usage(self) -> DailyUsage | None:
        if self.outlook is None:
            return None
        return DailyUsage.of(self.outlook.daily_group)

    @property
    def to_target(self) -> DatedRecoveryRange | None:
        return None if self.outlook is None else DatedRecoveryRange.of(self.outlook.to_target, self.as_of)

    @property
    def to_tolerance(self) -> DatedRecoveryRange | None:
        """As `to_target`; None: it is on target now."""
        return None if self.outlook is None or self.outlook.state.edge is None else self.to_target

    @property
    def sentence(self) -> str:
        return text_of(self.messages)

    def curve(self, as_of: datetime, days: float, n_points: int = 41) -> Sequence[CurvePoint]:
        return [] if self.outlook is None else curve_of(self.outlook, as_of, days=days, n_points=n_points)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecast for one entry of an account. deciding: index of the level that decides its rank, None if there is none.

    has_days: False if there is no daily usage yet, so that nothing can be forecast.
    """

    policy: Policy
    account: str
    namespace: str | None
    entry_uid: UUID
    entry_name: str
    path: str
    snapshot: ServedSnapshot
    levels: Sequence[ForecastLevel]
    deciding: int | None
    has_days: bool

    @property
    def as_of(self) -> datetime:
        return self.snapshot.as_of

    @property
    def shown(self) -> ForecastLevel | None:
        """The level to draw: the deciding one, else the deepest one with a forecast, else the last."""
        if self.deciding is not None:
            return self.levels[self.deciding]
        known = [level for level in self.levels if level.outlook is not None]
        return next(reversed(known or self.levels), None)

    @property
    def deciding_path(self) -> str | None:
        return None if self.deciding is None else self.levels[self.deciding].path

    @property
    def sentence(self) -> str:
        return text_of(self.messages)

    @property
    def messages(self) -> Sequence[Message]:
        return () if self.shown is None else self.shown.messages

    @property
    def curve(self) -> Sequence[CurvePoint]:
        return [] if self.shown is None else self.shown.curve(self.as_of, curve_days(self.shown))

    @property
    def past_shares(self) -> Sequence[PastShare]:
        return () if self.shown is None else self.shown.past_shares

    @cached_property
    def factor_ahead(self) -> FactorAhead | None:
        """Forecast of the factor; None where levels decide or a level is hidden."""
        tree = self.snapshot.tree
        entry = tree.index_of_uid(self.entry_uid)
        if entry is None or len(self.levels) != len(tree.ancestors(entry)):
            return None
        return factor_ahead(self.policy, self.snapshot, entry)


def get_forecasts(
    *, policy_slug: str, account: AccountQuery, actor: Actor, at: datetime, share: float | None = None
) -> list[Forecast]:
    """Return a forecast for each visible entry of an account; empty for an unknown account.

    share: assumed fraction, 0..1, of each level in its group's usage, instead of the recent one.
    """
    _check_share(share)
    scope = next((scope for scope in _SCOPES if actor.has_scope(scope)), Token.Scope.SELF_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    visible = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    names = names_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return _forecasts(policy, snapshot, account, visible, share, names)


def get_my_forecasts(*, actor: Actor, at: datetime, share: float | None = None) -> list[Forecast]:
    """Return forecasts for all accounts of the actor in all policies that have a snapshot."""
    _check_share(share)
    if actor.user is None or not actor.has_scope(Token.Scope.SELF_READ):
        raise NotAllowed("Sign in, or use a token with self:read, to see forecasts of your own priority.")
    forecasts = []
    for policy in list_policies(actor=actor):
        snapshot = newest_or_none(policy.slug)
        if snapshot is not None:
            visible = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
            for query in own_queries(actor):
                forecasts += _forecasts(policy, snapshot, query, visible, share)
    return forecasts


def get_my_forecast(
    *, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime, share: float | None = None
) -> Forecast | None:
    """Return the forecast for the actor's account that is mapped to this entry; None if there is none."""
    _check_share(share)
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    snapshot = store.newest(policy.slug)
    entry = snapshot.tree.index_of_uid(entry_uid)
    visible = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    for query in own_queries(actor):
        if entry and visible[entry] and entry in snapshot.index.find_certain(query):
            return build_forecast(policy, snapshot, entry, query, visible, share)
    return None


def _check_share(share: float | None) -> None:
    if share is not None and not 0 <= share <= 1:  # also rejects NaN
        message = "must be a part from 0 to 1: 0.25 for a quarter of what the group runs"
        raise Invalid(f"share {message}.", fields=[FieldProblem("share", message)])


def _forecasts(
    policy: Policy,
    snapshot: ServedSnapshot,
    query: AccountQuery,
    visible: Mask,
    share: float | None,
    names: AccountNames | None = None,
) -> list[Forecast]:
    """names: accounts that the reader may name; None for an own account."""
    forecasts = []
    for result in snapshot.lookup([query], mask=visible, names=names):
        entry = None if result["entry"] is None else snapshot.tree.index_of_path(result["entry"])
        if entry:
            forecasts.append(build_forecast(policy, snapshot, entry, query, visible, share))
    return forecasts


def build_forecast(
    policy: Policy, snapshot: ServedSnapshot, entry: int, query: AccountQuery, visible: Mask, share: float | None = None
) -> Forecast:
    """Build the forecast for one entry, without hidden levels. Cached for the request."""
    walk = walk_to(snapshot, entry)
    chain = [i for i in walk.chain if visible[i]]
    key = ("forecast", id(snapshot), query, *chain, share)  # simulated snapshots share the number

    def build() -> Forecast:
        pasts = None
        if has_known_decay(snapshot.settings.window):
            pasts = load_past(policy, snapshot, chain, hourly=needs_hourly_usage(window_of(snapshot.settings.window)))
        return forecast_from(policy, snapshot, query, walk, chain, pasts, share)

    return once_per_request(key, build)


def forecast_from(
    policy: Policy,
    snapshot: ServedSnapshot,
    query: AccountQuery,
    walk: Walk,
    chain: Sequence[int],
    pasts: Sequence[LevelPast] | None,
    share: float | None = None,
) -> Forecast:
    """Build the forecast from past usage by level; None: unknown. chain: visible entries, the account's entry last."""
    entry, tree = walk.chain[-1], snapshot.tree
    levels = [
        _level(policy, snapshot, entry, i, None if pasts is None else pasts[n], share) for n, i in enumerate(chain)
    ]
    deciding = None if walk.deciding is None else walk.chain[walk.deciding]
    return Forecast(
        policy=policy,
        account=query.user or query.dn or query.group,
        namespace=query.namespace or None,
        entry_uid=tree.uuid(entry),
        entry_name=tree.name[entry],
        path=snapshot.index.path(entry),
        snapshot=snapshot,
        levels=levels,
        deciding=chain.index(deciding) if deciding in chain else None,
        has_days=pasts is not None,
    )


def level_state(snapshot: ServedSnapshot, i: int) -> LevelState | None:
    """Return the level as in the snapshot, with the divisor that its algorithm used; None if the entry
    doesn't compete.
    """
    values = snapshot.values
    group = competitors(snapshot.tree, i)
    if not group or not values.competes[i]:
        return None
    own, actual, target = float(values.usage[i]), float(values.actual[i]), float(values.target[i])
    whole = own / actual if own > 0 and actual > 0 else float(values.usage[group].sum())
    is_idle = own <= 0 and not values.has_demand[i] and target > 0
    return LevelState(own, max(whole, own), target, slack_at(snapshot, i, target), is_idle)


def slack_at(snapshot: ServedSnapshot, i: int, target: float) -> float:
    """Return half the width of the band around a target of an entry, as a fraction."""
    return slack_of(target, tolerance_at(snapshot.settings.tolerance, not snapshot.tree.n_children[i]))


def _level(
    policy: Policy, snapshot: ServedSnapshot, leaf: int, i: int, past: LevelPast | None, share: float | None
) -> ForecastLevel:
    """The level of entry `i` on the path to `leaf`."""
    tree = snapshot.tree
    name, parent = tree.name[i], tree.name[tree.whole_of(i)]
    state = level_state(snapshot, i)
    outlook = None
    if state is None:
        messages = [build_message("forecast.not_compared", name=name)]
    elif not has_known_decay(snapshot.settings.window):
        messages = [build_message("forecast.no_decay_function", function=snapshot.settings.window["aging"])]
    elif past is None:
        messages = [build_message("forecast.no_days", policy=policy.name)]
    else:
        window = window_of(snapshot.settings.window)
        computed = forecast_level(state, past, window, as_of_s=snapshot.as_of.timestamp(), share=share)
        outlook = computed if computed.is_known else None
        messages = [
            *level_sentences(computed, name=name, parent=parent, window_s=window.reach_s, as_of=snapshot.as_of),
            *at_target_messages(snapshot, leaf, i),
        ]
    return ForecastLevel(
        as_of=snapshot.as_of,
        entry=i,
        uid=tree.uuid(i),
        name=name,
        parent_name=parent,
        path=snapshot.index.path(i),
        target=None if state is None else state.target,
        actual=None if state is None else state.actual,
        outlook=outlook,
        past=past,
        messages=messages,
    )


def curve_days(level: ForecastLevel) -> float:
    """Return the length of the curve in days: past the latest recovery, between 7 and 90."""
    if level.outlook is None:
        return 0.0
    recoveries = level.outlook.to_target
    times = [recovery.in_s for recovery in (recoveries.middle, recoveries.latest)]
    furthest_s = max((in_s for in_s in times if in_s), default=10 * DAY_S)
    return min(max(1.25 * furthest_s / DAY_S, 7.0), 90.0)
