"""Result of a what-if scenario: rank and factor now and in a week, with and without it, and the recovery time.

The engine computes both sides from the tree and usage of the newest snapshot. For readers of a subtree, hidden usage
enters in steps, and ranks are given in steps, so that trying values reveals no other user's usage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

import numpy as np
from django.core.cache import cache
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.forecast.entry_forecast import DatedRecovery, when_on_target
from apps.contrib.forecast.past_usage import DAY_S, competitors
from apps.contrib.forecast.selectors import Forecast, ForecastLevel, build_forecast, slack_at
from apps.contrib.forecast.what_if.totals import DAYS_AHEAD, Basis, WeekAhead, load_week_ahead
from apps.core.errors import FieldProblem, Invalid, Malformed, NotFound, TooOften
from apps.core.typed_numbers import read_number
from apps.engine.algorithms import PriorityResult
from apps.engine.explain import UsagePhase, UsageRate
from apps.engine.tree import FairshareTree
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.priorities.metering import steady_use_s, window_of
from apps.priorities.recompute.reader_trials import moved_from, totals_of_reader
from apps.priorities.recompute.totals import Totals, conflict_without_algorithm
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import names_in, numbers_visible_in, own_queries

__all__ = [
    "DEFAULT_DAYS",
    "MOST_CORE_H",
    "MOST_DAYS",
    "MOST_LOAD",
    "Course",
    "RankRange",
    "Scenario",
    "ScenarioResult",
    "WeekAhead",
    "limit_computations",
    "read_scenario",
    "run_my_scenario",
    "run_scenario",
]

MOST_CORE_H = 1e9
MOST_DAYS = 365.0
MOST_LOAD = 1_000.0
DEFAULT_DAYS = 7.0


@dataclass(frozen=True)
class Scenario:
    """core_h: what the account runs evenly over the next `days`, after which it continues as before; None: as before
    throughout. In hours of the policy's metric: core-hours if it counts cores only.

    load: usage of its group relative to the recent pace, 1.0 is unchanged. target: of the entry at `level` (a path),
    0..1.
    """

    core_h: float | None = None
    days: float = DEFAULT_DAYS
    load: Annotated[float, "Usage of its group relative to the last days; 1: unchanged"] = 1.0
    level: Annotated[str | None, "Path of the entry with another target"] = None
    target: Annotated[float | None, "0..1"] = None

    @property
    def is_empty(self) -> bool:
        return self.core_h is None and self.load == 1.0 and self.target is None


def read_scenario(parameters: Mapping[str, str]) -> Scenario:
    """Parse core_h, days, load and target in percent, and level. Empty texts change nothing; all errors are reported at
    once.
    """
    problems: list[FieldProblem] = []

    def number(name: str, least: float, most: float, message: str) -> float | None:
        text = parameters.get(name, "").strip().removesuffix("%").strip()
        if not text:
            return None
        try:
            value = read_number(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # also rejects NaN
            problems.append(FieldProblem(name, message))
            return None
        return value

    core_h = number("core_h", 0, MOST_CORE_H, _("must be a number of hours from 0 to 1,000,000,000"))
    days = number("days", 1, MOST_DAYS, _("must be a number of days from 1 to 365"))
    load = number("load", 0, MOST_LOAD, _("must be percent of the current usage, from 0 to 1000"))
    target = number("target", 0, 100, _("must be percent from 0 to 100"))
    level = parameters.get("level", "").strip()
    if len(level) > 10_000 or "\0" in level:
        problems.append(FieldProblem("level", _("must be the path of your entry, or of one above it")))
    if problems:
        first = problems[0]
        raise Malformed(f"{first.where} {first.message}.", code="impossible", fields=problems)
    return Scenario(
        core_h=core_h,
        days=DEFAULT_DAYS if days is None else days,
        load=1.0 if load is None else load / 100,
        level=level or None,
        target=None if target is None else target / 100,
    )


MOST_A_MINUTE = 60
_STEP = 5
_SCOPES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


@dataclass(frozen=True)
class RankRange:
    """Range of ranks (both ends equal if exact), None without a rank; factor None if hidden."""

    rank: tuple[int, int] | None
    factor: float | None

    @property
    def first(self) -> int | None:
        return None if self.rank is None else self.rank[0]

    @property
    def last(self) -> Annotated[int | None, "Last of a range of ranks, if ranks are rounded to steps"]:
        return None if self.rank is None else self.rank[1]

    @property
    def is_exact(self) -> bool:
        return self.rank is None or self.rank[0] == self.rank[1]


@dataclass(frozen=True)
class Course:
    """Rank and factor now and in a week. back: when the drawn level meets its target; None if the pace is unknown."""

    now: RankRange
    then: RankRange
    back: DatedRecovery | None


@dataclass(frozen=True)
class ScenarioResult:
    """Result of a scenario: the course of things without the supposed change, and with it."""

    scenario: Scenario
    forecast: Forecast
    of: int
    basis: Basis
    group_name: str
    without: Course
    changed: Course
    is_estimate: bool = True

    @property
    def then_at(self) -> datetime:
        return self.forecast.as_of + timedelta(days=DAYS_AHEAD)


def run_scenario(
    *,
    policy_slug: str,
    account: AccountQuery,
    scenario: Scenario,
    actor: Actor,
    at: datetime,
    entry_uid: UUID | None = None,
) -> ScenarioResult:
    """Compute a scenario for one visible account, by default for its first entry. NotFound if there is none."""
    scope = next((scope for scope in _SCOPES if actor.has_scope(scope)), Token.Scope.SELF_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    visible = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    names = names_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    paths = [result["entry"] for result in snapshot.lookup([account], mask=visible, names=names)]
    entries = [snapshot.tree.index_of_path(path) for path in paths if path is not None]
    chosen = [i for i in entries if i and (entry_uid is None or snapshot.tree.uuid(i) == entry_uid)]
    if not chosen:
        raise NotFound("There is no such account in this policy.")
    limit_computations(actor)
    forecast = build_forecast(policy, snapshot, chosen[0], account, visible)
    with conflict_without_algorithm():
        return _run(policy, snapshot, chosen[0], scenario, forecast, visible)


def run_my_scenario(
    *, policy_slug: str, entry_uid: UUID, scenario: Scenario, actor: Actor, at: datetime
) -> ScenarioResult:
    """Compute a scenario for the actor's account that is mapped to this entry."""
    for query in own_queries(actor):
        try:
            return run_scenario(
                policy_slug=policy_slug, account=query, scenario=scenario, actor=actor, at=at, entry_uid=entry_uid
            )
        except NotFound:
            continue
    raise NotFound("There is no such account in this policy.")


def limit_computations(actor: Actor) -> None:
    """Limit the computations a minute of a user, because each covers the whole tree. Raises TooOften."""
    key = f"what-if:{actor.user.pk if actor.user is not None else 0}"
    cache.add(key, 0, 60)
    try:
        n = cache.incr(key)
    except ValueError:  # the counter has just expired
        return
    if n > MOST_A_MINUTE:
        raise TooOften(_("Too many requests: the limit is %(n)s a minute. Wait a moment.") % {"n": MOST_A_MINUTE})


def _run(
    policy: Policy, snapshot: ServedSnapshot, entry: int, scenario: Scenario, forecast: Forecast, visible: Mask
) -> ScenarioResult:
    ahead, tree, is_exact = load_week_ahead(policy, snapshot), snapshot.tree, bool(visible.all())
    known, added = (totals_of_reader(totals, visible) for totals in (ahead.known, ahead.added))
    level = _changed_level(forecast, scenario)
    after = tree.engine_tree() if level is None else _with_target(tree.engine_tree(), snapshot, level, scenario)
    group = max(int(tree.parent[entry]), 0) or entry
    then = known.plus(_added_usage(snapshot, added, entry, group, scenario))
    algorithm = snapshot.settings.algorithm
    values = snapshot.values
    # The present rank is visible anyway. Exact results of scenarios would reveal others' usage by repeated trials.
    now = _rank_range(values.rank[entry], values.has_rank[entry], values.factor[entry], values.has_factor[entry], True)
    now_changed = now
    if level is not None:
        now_changed = rank_range_of(_trial_now(snapshot, after, visible), entry, is_exact)
    result = then.compute(algorithm, tree=after)
    if not is_exact:
        result = moved_from(ahead.continued, known.plus(added).compute(algorithm), result)
    back, back_changed = _recoveries(forecast, tree.parent[entry] > 0, scenario, level)
    return ScenarioResult(
        scenario=scenario,
        forecast=forecast,
        of=snapshot.n_ranked,
        basis=ahead.basis,
        group_name=tree.name[group],
        without=Course(now, rank_range_of(ahead.continued, entry, is_exact), back),
        changed=Course(now_changed, rank_range_of(result, entry, is_exact), back_changed),
    )


def _trial_now(snapshot: ServedSnapshot, after: FairshareTree, visible: Mask) -> PriorityResult:
    """Present priorities of the tree with other shares."""
    algorithm, totals = snapshot.settings.algorithm, totals_of_reader(snapshot.totals, visible)
    result = totals.compute(algorithm, tree=after)
    return result if visible.all() else moved_from(snapshot.values, totals.compute(algorithm), result)


def rank_range_of(result: PriorityResult, entry: int, is_exact: bool) -> RankRange:
    return _rank_range(
        result.rank[entry], result.has_rank[entry], result.factor[entry], result.has_factor[entry], is_exact
    )


def _rank_range(rank: int, has_rank: bool, factor: float, has_factor: bool, is_exact: bool) -> RankRange:
    known = float(factor) if has_factor and is_exact else None
    if not has_rank:
        return RankRange(None, known)
    first = int(rank) if is_exact else (int(rank) - 1) // _STEP * _STEP + 1
    return RankRange((first, first if is_exact else first + _STEP - 1), known)


def _changed_level(forecast: Forecast, scenario: Scenario) -> ForecastLevel | None:
    """Return the level whose target the scenario changes, by path or uid; by default the drawn one."""
    if scenario.target is None:
        return None
    if not scenario.level:
        level = forecast.shown
    else:
        level = next((each for each in forecast.levels if scenario.level in (each.path, str(each.uid))), None)
    if level is None or level.target is None:
        paths = ", ".join(each.path for each in forecast.levels if each.target is not None)
        message = _("must be one of %(names)s") % {"names": paths}
        raise Invalid(f"level {message}.", code="impossible", fields=[FieldProblem("level", message)])
    return level


def _with_target(
    tree: FairshareTree, snapshot: ServedSnapshot, level: ForecastLevel, scenario: Scenario
) -> FairshareTree:
    """Return the tree with the entry's new target; the others of its group share the rest in proportion."""
    target = scenario.target or 0.0
    group = np.array(competitors(snapshot.tree, level.entry), dtype=np.int64)
    others = group[group != level.entry]
    shares = tree.shares.astype(np.float64)
    rest = float(shares[others].sum())
    if rest <= 0:
        message = _("can’t change: no sibling of %(name)s has shares") % {"name": level.name}
        raise Invalid(f"target {message}.", code="impossible", fields=[FieldProblem("target", message)])
    shares[others] *= (1.0 - target) / rest
    shares[level.entry] = target
    return tree.with_shares(shares)


def _added_usage(snapshot: ServedSnapshot, added: Totals, entry: int, group: int, scenario: Scenario) -> Totals:
    """Usage added in the week: the group at its load, the account at its hours and then as before."""
    totals = added if scenario.load == 1.0 else added.scaled_below(group, scenario.load)
    if scenario.core_h is None:
        return totals
    window = window_of(snapshot.settings.window)
    week_s, spell_s = float(DAYS_AHEAD * DAY_S), min(scenario.days, DAYS_AHEAD) * DAY_S
    whole, rest = steady_use_s(0.0, week_s, window), steady_use_s(0.0, week_s - spell_s, window)
    previous = float(totals.usage[entry])
    own = _rate(scenario) * (whole - rest) + (previous * rest / whole if whole > 0 else 0.0)
    return totals.added(entry, own - previous)


def _rate(scenario: Scenario) -> float:
    """Usage per second, in the unit of the policy's metric."""
    return (scenario.core_h or 0.0) * 3600 / (scenario.days * DAY_S)


def _recoveries(
    forecast: Forecast, has_group: bool, scenario: Scenario, level: ForecastLevel | None
) -> tuple[DatedRecovery | None, DatedRecovery | None]:
    """When the drawn level meets its target, without and with the scenario, at the likely pace."""
    drawn, own_level = forecast.shown, forecast.levels[-1] if forecast.levels else None
    if drawn is None or own_level is None or drawn.outlook is None or own_level.outlook is None or drawn.target is None:
        return None, None
    current_pace, own_rate = drawn.outlook.usual_pace, own_level.outlook.usual_pace.own_rate
    slack = drawn.outlook.state.slack
    back = when_on_target(drawn.outlook, current_pace, target=drawn.target, slack=slack)
    if drawn is own_level:
        scaled = scenario.load * own_rate
        others = current_pace.group_rate - own_rate  # rate of the others in the entry's group
        pace = UsageRate(scaled, scaled + max(others, 0.0) * (scenario.load if has_group else 1.0))
    else:
        group = forecast.levels[-2] if has_group and len(forecast.levels) > 1 else own_level
        of_group = 0.0 if group.outlook is None else group.outlook.usual_pace.own_rate
        pace = _with_rate(current_pace, (scenario.load - 1) * of_group)
    spell = None
    if scenario.core_h is not None:
        spell = UsagePhase(_with_rate(pace, _rate(scenario) - scenario.load * own_rate), scenario.days * 24)
    if level is drawn and scenario.target is not None:
        changed, slack = scenario.target, slack_at(forecast.snapshot, drawn.entry, scenario.target)
    else:
        changed = drawn.target
    back_changed = when_on_target(drawn.outlook, pace, target=changed, slack=slack, spell=spell)
    return DatedRecovery.of(back, forecast.as_of), DatedRecovery.of(back_changed, forecast.as_of)


def _with_rate(pace: UsageRate, rate: float) -> UsageRate:
    own = max(pace.own_rate + rate, 0.0)
    return UsageRate(own, max(pace.group_rate + rate, own))
