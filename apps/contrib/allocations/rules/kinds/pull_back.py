"""Pull-back for under-use: after each month or quarter but the last, a table says how much is removed.

    use = U / P · 100,  R = r(use) · P / 100,  removed = max(0, min(R − removed before, A − U))

U: hours charged to it until the period's end, P: planned until then (of A(t0), the amount that people allocated), r:
the removed percent of the lowest bound that use is below; use at a bound isn't below it. With `of` unused, R is r of
what is unused, A − U, and each removal is its own. Nothing is removed where nothing was planned. Hours that were
removed don't come back where use rises later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from apps.contrib.allocations.rules.calendar import period_starts
from apps.contrib.allocations.rules.kinds.amounts import amount_effects, due_rows
from apps.contrib.allocations.rules.state import RuledAllocation, RuledState
from apps.contrib.allocations.rules.step import Step
from apps.policies.allocation_rules import AllocationRule, PullBack, Reduction

FORMULA = "use = U / P · 100; R = r(use) · P / 100; removed = max(0, min(R − removed before, A − U))"
FORMULA_OF_UNUSED = "use = U / P · 100; removed = r(use) · (A − U) / 100"


def pull_back_steps(rule: AllocationRule, state: RuledState, day: date) -> Iterator[Step]:
    """Steps of allocations of which a period was over `days_after` ago; those that lose nothing have no effect."""
    terms = rule.terms
    assert isinstance(terms, PullBack), "steps are made by the rule's kind"  # noqa: S101 - an invariant, not input

    def days_of(row: RuledAllocation) -> list[date]:
        ends = period_starts(row.starts_on, row.ends_on, terms.every)[1:]
        return [each + timedelta(days=terms.days_after) for each in ends]

    for row, k, key in due_rows(rule, state, day, days_of):
        starts = period_starts(row.starts_on, row.ends_on, terms.every)
        planned = row.initial * planned_part(terms.plan, k, len(starts))
        used = state.used_before(row, starts[k])
        use = used / planned * 100 if planned > 0 else 100.0
        percent = removed_percent(terms.table, use)
        unused = max(row.amount - state.used_before(row, day), 0.0)
        before = max(row.initial - row.amount, 0.0)
        if terms.of == "planned":
            reduction = percent * planned / 100
            removed = max(0.0, min(reduction - before, unused))
        else:
            removed = reduction = percent * unused / 100
        removed = max(min(removed, row.initial * rule.most_percent / 100 - before), 0.0)
        numbers = (
            ("A(t0)", row.initial),
            ("U", used),
            ("P", planned),
            ("use", use),
            ("r", percent),
            ("R", reduction),
            ("removed before", before),
            ("removed", removed),
        )
        formula = FORMULA if terms.of == "planned" else FORMULA_OF_UNUSED
        effects = amount_effects(row, row.amount - removed)
        yield Step(rule.name, day, key, row.entry_uid, row.path, formula, numbers, effects, row.uid)


def planned_part(plan: Sequence[float] | None, k: int, n: int) -> float:
    """Fraction planned for the first k of n periods; even if the plan is of another number of periods."""
    return k / n if plan is None or len(plan) != n else sum(plan[:k]) / 100


def removed_percent(table: Sequence[Reduction], use: float) -> float:
    """Of the row with the lowest bound that the use is below; 0 if it is below none."""
    return next((row.removed_percent for row in reversed(table) if use < row.below_percent), 0.0)
