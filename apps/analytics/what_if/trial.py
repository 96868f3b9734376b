"""What-if result: rank and factor now and in a week, with and without a supposition, and the recovery time.

The engine itself computes both sides, on the tree and the usage of the newest snapshot. Readers of a part
get ranks in steps, so that varying a number reveals no other user's usage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from django.core.cache import cache
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.analytics.forecast import Forecast, ForecastLevel, build_forecast
from apps.analytics.forecast.past_usage import DAY_S, competitors
from apps.analytics.what_if.totals import DAYS_AHEAD, Ahead, Basis, ahead_of
from apps.core.errors import FieldProblem, Invalid, Malformed, NotFound, TooOften
from apps.core.typed_numbers import read_number
from apps.engine.algorithms import PriorityResult
from apps.engine.explain import Pace, Recovery, Spell, meeting
from apps.engine.tree import FairshareTree
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.priorities.metering import steady_use_s, window_of
from apps.priorities.recompute.totals import Totals, conflict_without_algorithm
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visibility import numbers_visible_in, own_queries

__all__ = [
    "MOST_CORE_H",
    "MOST_DAYS",
    "MOST_LOAD",
    "USUAL_DAYS",
    "Ahead",
    "Place",
    "Supposition",
    "Tried",
    "count_computation",
    "read_asked",
    "try_out",
    "try_out_mine",
]

# --- Supposition ------------------------------------------------------------------------------------------------------
MOST_CORE_H = 1e9
MOST_DAYS = 365.0
MOST_LOAD = 1_000.0
USUAL_DAYS = 7.0


@dataclass(frozen=True)
class Supposition:
    """core_h: what the account runs evenly over the next `days`, and as lately after them; None: as lately. In hours of
    what the policy's metric counts: core-hours where it counts cores alone.

    load: what its group runs, 1.0 for as lately. target: of the entry at `level` (a path), 0..1.
    """

    core_h: float | None = None
    days: float = USUAL_DAYS
    load: float = 1.0
    level: str = ""
    target: float | None = None

    @property
    def is_empty(self) -> bool:
        return self.core_h is None and self.load == 1.0 and self.target is None


def read_asked(given: Mapping[str, str]) -> Supposition:
    """From texts: core_h, days, load and target in percent, level. Empty ones suppose nothing; all problems at once."""
    problems: list[FieldProblem] = []

    def number(name: str, least: float, most: float, message: str) -> float | None:
        text = given.get(name, "").strip().removesuffix("%").strip()
        if not text:
            return None
        try:
            value = read_number(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # NaN is neither
            problems.append(FieldProblem(name, message))
            return None
        return value

    core_h = number("core_h", 0, MOST_CORE_H, _("must be a number of hours from 0 to 1,000,000,000"))
    days = number("days", 1, MOST_DAYS, _("must be a number of days from 1 to 365"))
    load = number("load", 0, MOST_LOAD, _("must be percent of the current usage, from 0 to 1000"))
    target = number("target", 0, 100, _("must be percent from 0 to 100"))
    level = given.get("level", "").strip()
    if len(level) > 10_000 or "\0" in level:
        problems.append(FieldProblem("level", _("must be the path of your entry, or of one above it")))
    if problems:
        first = problems[0]
        raise Malformed(f"{first.where} {first.message}.", code="impossible", fields=problems)
    return Supposition(
        core_h=core_h,
        days=USUAL_DAYS if days is None else days,
        load=1.0 if load is None else load / 100,
        level=level,
        target=None if target is None else target / 100,
    )


# --- Result -----------------------------------------------------------------------------------------------------------
MOST_A_MINUTE = 60
_STEP = 5
_SCOPES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


@dataclass(frozen=True)
class Place:
    """A rank from–to (equal where exact), None without one; factor None where hidden."""

    rank: tuple[int, int] | None
    factor: float | None

    @property
    def is_exact(self) -> bool:
        return self.rank is None or self.rank[0] == self.rank[1]


@dataclass(frozen=True)
class Tried:
    """back: when the level that is drawn meets its target; None where the pace is unknown."""

    asked: Supposition
    forecast: Forecast
    of: int
    basis: Basis
    group_name: str
    now: Place
    now_if: Place
    then: Place
    then_if: Place
    back: Recovery | None
    back_if: Recovery | None

    @property
    def then_at(self) -> datetime:
        return self.forecast.as_of + timedelta(days=DAYS_AHEAD)

    def instant(self, found: Recovery | None) -> datetime | None:
        return None if found is None or found.in_s is None else self.forecast.as_of + timedelta(seconds=found.in_s)


def try_out(
    *,
    policy_slug: str,
    account: AccountQuery,
    asked: Supposition,
    actor: Actor,
    at: datetime,
    entry_uid: UUID | None = None,
) -> Tried:
    """For one visible account, its first entry unless another is named; else NotFound."""
    scope = next((scope for scope in _SCOPES if actor.has_scope(scope)), Token.Scope.SELF_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    told = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    paths = [result["entry"] for result in snapshot.lookup([account], mask=told)]
    entries = [snapshot.tree.index_of_path(path) for path in paths if path is not None]
    chosen = [i for i in entries if i and (entry_uid is None or snapshot.tree.uuid(i) == entry_uid)]
    if not chosen:
        raise NotFound("There is no such account in this policy.")
    count_computation(actor)
    forecast = build_forecast(policy, snapshot, chosen[0], account, told)
    with conflict_without_algorithm():
        return _tried(policy, snapshot, chosen[0], asked, forecast, is_exact=bool(told.all()))


def try_out_mine(*, policy_slug: str, entry_uid: UUID, asked: Supposition, actor: Actor, at: datetime) -> Tried:
    """For the account of the actor that has this entry."""
    for query in own_queries(actor):
        try:
            return try_out(policy_slug=policy_slug, account=query, asked=asked, actor=actor, at=at, entry_uid=entry_uid)
        except NotFound:
            continue
    raise NotFound("There is no such account in this policy.")


def count_computation(actor: Actor) -> None:
    """Limit computations a minute over all users: each covers the whole tree."""
    key = f"what-if:{actor.user.pk if actor.user is not None else 0}"
    cache.add(key, 0, 60)
    try:
        n = cache.incr(key)
    except ValueError:  # it has just run out
        return
    if n > MOST_A_MINUTE:
        raise TooOften(_("Too many requests: the limit is %(n)s a minute. Wait a moment.") % {"n": MOST_A_MINUTE})


def _tried(
    policy: Policy, snapshot: ServedSnapshot, entry: int, asked: Supposition, forecast: Forecast, *, is_exact: bool
) -> Tried:
    ahead, tree = ahead_of(policy, snapshot), snapshot.tree
    level = _level(forecast, asked)
    after = tree.engine_tree() if level is None else _with_target(tree.engine_tree(), snapshot, level, asked)
    group = max(int(tree.parent[entry]), 0) or entry
    then = ahead.known.plus(_supposed(snapshot, ahead.more, entry, group, asked))
    algorithm = snapshot.settings.algorithm
    values = snapshot.values
    # The present rank is on the page that asks; what is supposed would reveal others, one trial after the other.
    now = _place(values.rank[entry], values.has_rank[entry], values.factor[entry], values.has_factor[entry], True)
    now_if = now
    if level is not None:
        result = snapshot.totals.compute(algorithm, tree=after)
        now_if = place_in(result, entry, is_exact)
    result = then.compute(algorithm, tree=after)
    back, back_if = _back(forecast, tree.parent[entry] > 0, asked, level)
    return Tried(
        asked=asked,
        forecast=forecast,
        of=snapshot.n_ranked,
        basis=ahead.basis,
        group_name=tree.name[group],
        now=now,
        now_if=now_if,
        then=place_in(ahead.goes_on, entry, is_exact),
        then_if=place_in(result, entry, is_exact),
        back=back,
        back_if=back_if,
    )


def place_in(result: PriorityResult, entry: int, is_exact: bool) -> Place:
    return _place(result.rank[entry], result.has_rank[entry], result.factor[entry], result.has_factor[entry], is_exact)


def _place(rank: int, has_rank: bool, factor: float, has_factor: bool, is_exact: bool) -> Place:
    known = float(factor) if has_factor and is_exact else None
    if not has_rank:
        return Place(None, known)
    first = int(rank) if is_exact else (int(rank) - 1) // _STEP * _STEP + 1
    return Place((first, first if is_exact else first + _STEP - 1), known)


def _level(forecast: Forecast, asked: Supposition) -> ForecastLevel | None:
    """The level whose target is supposed to be another, by its path or its uid; the drawn one unless named."""
    if asked.target is None:
        return None
    if not asked.level:
        found = forecast.shown
    else:
        found = next((each for each in forecast.levels if asked.level in (each.path, str(each.uid))), None)
    if found is None or found.target is None:
        paths = ", ".join(each.path for each in forecast.levels if each.target is not None)
        message = _("must be one of %(names)s") % {"names": paths}
        raise Invalid(f"level {message}.", code="impossible", fields=[FieldProblem("level", message)])
    return found


def _with_target(
    tree: FairshareTree, snapshot: ServedSnapshot, level: ForecastLevel, asked: Supposition
) -> FairshareTree:
    """The tree with this entry's new target; the others of its group share the rest as before."""
    target = asked.target or 0.0
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


def _supposed(snapshot: ServedSnapshot, more: Totals, entry: int, group: int, asked: Supposition) -> Totals:
    """What is used in the week ahead: the group at its load, the account at its hours, then as lately again."""
    found = more if asked.load == 1.0 else more.scaled_below(group, asked.load)
    if asked.core_h is None:
        return found
    window = window_of(snapshot.settings.window)
    week_s, spell_s = float(DAYS_AHEAD * DAY_S), min(asked.days, DAYS_AHEAD) * DAY_S
    whole, rest = steady_use_s(0.0, week_s, window), steady_use_s(0.0, week_s - spell_s, window)
    usual = float(found.usage[entry])
    own = _rate(asked) * (whole - rest) + (usual * rest / whole if whole > 0 else 0.0)
    return found.added(entry, own - usual)


def _rate(asked: Supposition) -> float:
    """Usage a second, in the unit of the policy's metric."""
    return (asked.core_h or 0.0) * 3600 / (asked.days * DAY_S)


def _back(
    forecast: Forecast, has_group: bool, asked: Supposition, level: ForecastLevel | None
) -> tuple[Recovery | None, Recovery | None]:
    """When the level that is drawn meets its target, as it is and as supposed, at the likely pace."""
    drawn, mine = forecast.shown, forecast.levels[-1] if forecast.levels else None
    if drawn is None or mine is None or drawn.outlook is None or mine.outlook is None or drawn.target is None:
        return None, None
    as_now, own_rate = drawn.outlook.paces[2], mine.outlook.paces[2].own_rate
    back = meeting(drawn.outlook.course, drawn.target, as_now)
    if drawn is mine:
        scaled = asked.load * own_rate
        others = as_now.group_rate - own_rate  # of the entry's group, which is theirs as well where there is one
        pace = Pace(scaled, scaled + max(others, 0.0) * (asked.load if has_group else 1.0))
    else:
        group = forecast.levels[-2] if has_group and len(forecast.levels) > 1 else mine
        of_group = 0.0 if group.outlook is None else group.outlook.paces[2].own_rate
        pace = _more(as_now, (asked.load - 1) * of_group)
    spell = None
    if asked.core_h is not None:
        spell = Spell(_more(pace, _rate(asked) - asked.load * own_rate), asked.days * 24)
    target = asked.target if level is drawn and asked.target is not None else drawn.target
    return back, meeting(drawn.outlook.course, target, pace, spell)


def _more(pace: Pace, rate: float) -> Pace:
    own = max(pace.own_rate + rate, 0.0)
    return Pace(own, max(pace.group_rate + rate, own))
