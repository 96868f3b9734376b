"""Last when used up: each month or quarter siblings divide the sum of their shares by what remains to them.

    s = least + (S − N · least) · R / ΣR

S: sum of the shares of the N siblings that have a current allocation in the unit, R: what remains of one's, at least 0,
ΣR: of all of them. A sibling that is used up has the least shares, and is last. Nothing changes where all are used up,
or S is below N · least. Siblings without an allocation and those that inherit their shares keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from uuid import UUID

from apps.contrib.allocations.rules.calendar import calendar_period
from apps.contrib.allocations.rules.kinds.current_use import current_uses
from apps.contrib.allocations.rules.state import RuledState
from apps.contrib.allocations.rules.step import SharesEffect, Step
from apps.policies.allocation_rules import AllocationRule, LastWhenUsedUp

FORMULA = "s = least + (S − N · least) · R / ΣR"
_TRACE = 1e-12  # of S: less is 0


def last_when_used_up_steps(rule: AllocationRule, state: RuledState, day: date) -> Iterator[Step]:
    """One step for each group of siblings, in each calendar period, by usage up to the day before."""
    terms = rule.terms
    assert isinstance(terms, LastWhenUsedUp), "steps are made by the rule's kind"  # noqa: S101 - an invariant
    period = calendar_period(day, terms.every)
    parents = set(state.parents.values())
    if all(state.is_done(rule.name, f"{parent}:{period}") for parent in parents):
        return
    uses = current_uses(rule, state, day, until=day)
    groups: dict[UUID, dict[UUID, float]] = {}
    for uid, remaining in zip(uses.entries, uses.remaining.tolist(), strict=True):
        parent = state.parents.get(uid)
        if parent is not None and uid in state.shares:
            groups.setdefault(parent, {})[uid] = remaining
    for parent, left in groups.items():
        key = f"{parent}:{period}"
        if not state.is_done(rule.name, key):
            yield _step(rule, terms, state, day, key, parent, left)


def _step(
    rule: AllocationRule,
    terms: LastWhenUsedUp,
    state: RuledState,
    day: date,
    key: str,
    parent: UUID,
    left: Mapping[UUID, float],
) -> Step:
    together = sum(state.shares[uid] for uid in left)
    remaining = sum(left.values())
    divided = together - len(left) * terms.least_shares
    effects = []
    if remaining > 0 and divided > 0:
        for uid, own in left.items():
            before = state.shares[uid]
            wanted = terms.least_shares + divided * own / remaining
            after = max(wanted if wanted > _TRACE * together else 0.0, before * (1 - rule.most_percent / 100))
            if after != before:
                effects.append(SharesEffect(uid, before, after))
    numbers = [("S", together), ("N", float(len(left))), ("least", terms.least_shares), ("ΣR", remaining)]
    numbers += [(f"R {state.paths[uid]}", own) for uid, own in left.items()]
    return Step(rule.name, day, key, parent, state.paths[parent], FORMULA, tuple(numbers), tuple(effects))
