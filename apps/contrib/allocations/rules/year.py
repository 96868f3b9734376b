"""What rules do in the year ahead if use continues, and what they would have done in the past year, in shadow.

Both are the steps of `engine.simulate`, as the worker takes them: ahead from today's amounts, shares and steps taken,
with each day's usage as the mean of the last 28 days; back from what people allocated, before any rule, with the usage
that was delivered and today's shares. Rules that are on act together; each in shadow is added to them by itself,
without those that it would fight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.outlook import RECENT
from apps.contrib.allocations.rules.engine import simulate
from apps.contrib.allocations.rules.loading import (
    MOST_RULED_DAYS,
    RuledPolicy,
    add_steps_taken,
    load_used,
    make_state,
    ruled_allocations,
)
from apps.contrib.allocations.rules.state import DAY, RuledAllocation, RuledState, UsedByDay
from apps.contrib.allocations.rules.step import Step
from apps.policies.allocation_rules import AllocationRule, fighting, rules_of
from apps.priorities.selectors.rows import PolicyView

YEAR_DAYS = 365
MOST_LISTED_STEPS = 1_000


def load_ruled(view: PolicyView, zone: ZoneInfo) -> RuledPolicy:
    return RuledPolicy(view.policy, view.tree, view.settings, view.now, zone)


def year_ahead(ruled: RuledPolicy) -> list[Step]:
    """Steps of the next 365 days, by day, of rules that aren't off."""
    rules = _active(ruled)
    allocations = ruled_allocations(ruled, rules)
    used = load_used(ruled, allocations, not_before=ruled.today - MOST_RULED_DAYS * DAY)
    until = ruled.today + YEAR_DAYS * DAY
    ahead = {unit: each.going_on(ruled.today, until, pace_days=RECENT.days) for unit, each in used.items()}

    def steps(together: Sequence[AllocationRule]) -> Iterable[Step]:
        state = make_state(ruled, allocations, ahead)
        add_steps_taken(state, ruled, [rule.name for rule in together])
        return simulate(together, state, ruled.today, until)

    return _of_each(rules, steps)


def past_year(ruled: RuledPolicy) -> list[Step]:
    """Steps that rules which aren't off would have taken in the last 365 days, by day."""
    rules = _active(ruled)
    since = ruled.today - YEAR_DAYS * DAY
    # Those that ended before the year paid for hours that no other is charged.
    rows = [row for row in ruled_allocations(ruled, rules) if row.carried_from is None]
    rows = [replace(row, amount=row.initial, by_rules=0.0) for row in rows]
    earliest = ruled.today - MOST_RULED_DAYS * DAY
    used = load_used(ruled, rows, not_before=earliest)
    first = max(min((row.starts_on for row in rows if row.ends_on >= since), default=since), earliest)

    def steps(together: Sequence[AllocationRule]) -> Iterable[Step]:
        state = _before_rules(ruled, rows, used)
        return (step for step in simulate(together, state, min(first, since), ruled.today) if step.on >= since)

    return _of_each(rules, steps)


def _active(ruled: RuledPolicy) -> list[AllocationRule]:
    return [rule for rule in rules_of(ruled.settings.rules) if rule.mode != "off"]


def _before_rules(ruled: RuledPolicy, rows: Sequence[RuledAllocation], used: dict[str, UsedByDay]) -> RuledState:
    state = make_state(ruled, rows, used)
    state.limits.clear()
    return state


def _of_each(
    rules: Sequence[AllocationRule], steps: Callable[[Sequence[AllocationRule]], Iterable[Step]]
) -> list[Step]:
    """Steps of the rules that are on, together, and of each in shadow."""
    on = [rule for rule in rules if rule.is_on]
    together = list(steps(on)) if on else []
    for shadow in (rule for rule in rules if not rule.is_on):
        tried = replace(shadow, mode="on")
        enemies = {other.name for pair in fighting([*on, tried]) for other in pair[:2]}
        beside = [rule for rule in on if rule.name not in enemies]
        together += [step for step in steps([*beside, tried]) if step.rule == shadow.name]
    return sorted(together, key=lambda step: (step.on, step.rule, step.path))


def visible_steps(view: PolicyView, steps: Sequence[Step]) -> list[Step]:
    """Steps whose entries, all of them, the reader sees by name with their numbers."""
    outright = view.visibility.outright & view.visibility.mask

    def shows(step: Step) -> bool:
        at = view.tree.index_of_uid(step.entry_uid)
        if at is None or not outright[at]:
            return False
        is_of_group = step.allocation_uid is None and step.level is None  # its numbers are of the children
        return not is_of_group or bool(outright[list(view.tree.children(at))].all())

    return [step for step in steps if shows(step)]


def steps_taken(view: PolicyView, most: int) -> list[RuleStep]:
    """The newest steps that rules took, of entries that the reader sees by name with their numbers."""
    outright = view.visibility.outright & view.visibility.mask
    shown = []
    for step in RuleStep.objects.filter(policy=view.policy).order_by("-pk")[: 5 * most]:
        i = view.tree.index_of_uid(step.entry_uid)
        if i is None or not outright[i]:
            continue
        is_of_group = step.allocation_uid is None and step.level is None  # its numbers are of the children
        if not is_of_group or outright[list(view.tree.children(i))].all():
            shown.append(step)
    return shown[:most]
