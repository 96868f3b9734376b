"""Which steps rules take on a day, and day by day over a period: one definition for what was, would be and is done.

The past year in shadow, the year ahead, the replay of published rules, and the worker that acts all call `steps_on`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta

from apps.contrib.allocations.rules.kinds.aging import aging_steps
from apps.contrib.allocations.rules.kinds.carry_over import carry_over_steps
from apps.contrib.allocations.rules.kinds.last_when_used_up import last_when_used_up_steps
from apps.contrib.allocations.rules.kinds.portions import portion_steps
from apps.contrib.allocations.rules.kinds.pull_back import pull_back_steps
from apps.contrib.allocations.rules.kinds.thresholds import threshold_steps
from apps.contrib.allocations.rules.state import RuledState
from apps.contrib.allocations.rules.step import Step
from apps.policies.allocation_rules import AllocationRule

StepsOf = Callable[[AllocationRule, RuledState, date], Iterator[Step]]

# In the order of a day: amounts first, since thresholds and shares follow them.
STEPS: Mapping[str, StepsOf] = {
    "carry_over": carry_over_steps,
    "portions": portion_steps,
    "aging": aging_steps,
    "pull_back": pull_back_steps,
    "last_when_used_up": last_when_used_up_steps,
    "thresholds": threshold_steps,
}


def steps_on(rules: Sequence[AllocationRule], state: RuledState, day: date) -> Iterator[Step]:
    """Take the steps of a day, one after another in `state`, and yield each.

    At most `most_entries` entries are changed by a rule a day; the others follow on the next.
    """
    for kind, steps_of in STEPS.items():
        for rule in rules:
            if rule.kind != kind:
                continue
            state.refresh()
            for step in steps_of(rule, state, day):
                if step.changes and not state.has_room(rule.name, day, rule.most_entries):
                    break
                state.apply(step)
                yield step


def simulate(rules: Sequence[AllocationRule], state: RuledState, from_day: date, until: date) -> Iterator[Step]:
    """Steps of each day from the first to the last, in order; `state` is changed."""
    for at in range((until - from_day).days + 1):
        yield from steps_on(rules, state, from_day + timedelta(days=at))
