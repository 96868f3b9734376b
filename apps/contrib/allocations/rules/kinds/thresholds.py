"""Thresholds: from a percentage of use on, notify, lower shares, set a QOS or GrpTRESMins; re-armed by more hours.

    use = U / A · 100,  level = the highest with use ≥ percent, 0 if none

U: hours charged to the entry's current allocations in the unit, A: their amounts together, see `balance`.
Without an amount (A = 0) use is 100 % as soon as anything was used. An entry without a current allocation keeps its
level. Each level has what it sets, and otherwise what the levels below it set. When the level falls, which hours that
were added or usage that was credited bring about, shares go back to what they were before the rule lowered them, unless
they were changed since, and limits that the level doesn't set are cleared. A level rises once a day at most, and falls
once a day for each amount, so that a project that was stopped can run again as soon as hours were added.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from uuid import UUID

import numpy as np

from apps.contrib.allocations.rules.kinds.current_use import current_uses
from apps.contrib.allocations.rules.state import DAY, LevelReached, RuledState
from apps.contrib.allocations.rules.step import Effect, LimitsEffect, NotifyEffect, SharesEffect, Step
from apps.policies.allocation_rules import AllocationRule, Level, Thresholds

FORMULA = "use = U / A · 100"
_NO_LEVEL = LevelReached(0)


def threshold_steps(rule: AllocationRule, state: RuledState, day: date) -> Iterator[Step]:
    """Steps of entries whose level changed, by usage up to the end of the day."""
    terms = rule.terms
    assert isinstance(terms, Thresholds), "steps are made by the rule's kind"  # noqa: S101 - an invariant, not input
    uses = current_uses(rule, state, day, until=day + DAY)
    reached = np.searchsorted([level.percent for level in terms.levels], uses.percent, side="right")
    former_levels = np.array([state.levels.get((rule.name, uid), _NO_LEVEL).level for uid in uses.entries], np.int64)
    for at in np.flatnonzero(reached != former_levels).tolist():
        uid, level = uses.entries[at], int(reached[at])
        former = state.levels.get((rule.name, uid), _NO_LEVEL)
        key = f"{uid}:{day}"
        if level < former.level:  # at once, also on the day of the rise: once for each amount
            key += f":{float(uses.amount[at])!r}"
        if state.is_done(rule.name, key):
            continue
        effects = tuple(_effects(rule, terms.levels, state, uid, former, level))
        numbers = (("U", float(uses.used[at])), ("A", float(uses.amount[at])), ("use", float(uses.percent[at])))
        yield Step(rule.name, day, key, uid, state.paths[uid], FORMULA, numbers, effects, level=level)


def _effects(
    rule: AllocationRule,
    levels: tuple[Level, ...],
    state: RuledState,
    entry_uid: UUID,
    former: LevelReached,
    level: int,
) -> Iterator[Effect]:
    reached = levels[:level]
    if level > former.level and any(each.notify for each in levels[former.level : level]):
        yield NotifyEffect(reached[-1].percent)
    yield from _shares(rule, reached, state, entry_uid, former)
    if "limits" in rule.changes:
        qos = next((each.qos for each in reversed(reached) if each.qos is not None), None) or None
        minutes = next((each.grp_tres_mins for each in reversed(reached) if each.grp_tres_mins is not None), None)
        wanted = LimitsEffect(entry_uid, qos, minutes or None)
        standing = state.limits.get(entry_uid)
        if (standing[1] if standing else LimitsEffect(entry_uid, None, None)) != wanted:
            yield wanted


def _shares(
    rule: AllocationRule, reached: tuple[Level, ...], state: RuledState, entry_uid: UUID, former: LevelReached
) -> Iterator[SharesEffect]:
    """Lower shares, under the owner's limit; put them back where no reached level lowers them."""
    current = state.shares.get(entry_uid)
    if current is None:  # it inherits its shares
        return
    before = current if former.shares is None else former.shares[0]
    if former.shares is not None and current != former.shares[1]:
        return  # changed since by a person
    wanted = next((each.shares for each in reversed(reached) if each.shares is not None), None)
    least = before * (1 - rule.most_percent / 100)
    after = before if wanted is None else min(max(wanted, least), before)
    if after != current:
        yield SharesEffect(entry_uid, current, after)
