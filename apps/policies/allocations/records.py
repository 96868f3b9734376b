"""Periods of days, and the parts that allocations and capacities share: validation, version tags, rights, audit events.

Hours of a period are real hours: a day on which clocks change has 23 or 25, and leap years have one more day.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid
from apps.policies.access.scope import WRITE, Rights, Verb, Visibility, rules_within
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text

FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2999, 12, 31)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A period from the start of its first day to the end of its last day."""

    starts_on: date
    ends_on: date

    def __post_init__(self) -> None:
        if not FIRST_DAY <= self.starts_on <= self.ends_on <= LAST_DAY:
            raise ValueError(
                f"a period's last day must not be before its first, and both must be from {FIRST_DAY} to {LAST_DAY}"
            )

    @property
    def n_days(self) -> int:
        return (self.ends_on - self.starts_on).days + 1

    def __contains__(self, day: date) -> bool:
        return self.starts_on <= day <= self.ends_on

    def overlap(self, other: Period) -> Period | None:
        """Return the days that both periods contain, or None."""
        starts_on, ends_on = max(self.starts_on, other.starts_on), min(self.ends_on, other.ends_on)
        return Period(starts_on, ends_on) if starts_on <= ends_on else None

    def instants(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Return its start and end as UTC instants."""
        return begins_at(self.starts_on, zone), begins_at(self.ends_on + DAY, zone)

    def hours(self, zone: ZoneInfo, *, until: datetime | None = None) -> float:
        """Return the real hours from its start to its end, or to an instant within it."""
        begin, end = self.instants(zone)
        stop = end if until is None else min(max(until, begin), end)
        return (stop - begin) / HOUR


def begins_at(day: date, zone: ZoneInfo) -> datetime:
    """Return the first instant of a day, in UTC; if clocks change at midnight, the one right after the change."""
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


def day_of(at: datetime, zone: ZoneInfo) -> date:
    return at.astimezone(zone).date()


def whole_year(day: date) -> Period:
    return Period(date(day.year, 1, 1), date(day.year, 12, 31))


def uncovered(period: Period, parts: Sequence[Period]) -> list[Period]:
    """Return the days of a period that none of the parts contains."""
    left, day = [], period.starts_on
    for part in sorted(each for each in parts if each.overlap(period)):
        if part.starts_on > day:
            left.append(Period(day, part.starts_on - DAY))
        day = max(day, part.ends_on + DAY)
    if day <= period.ends_on:
        left.append(Period(day, period.ends_on))
    return left


LONGEST_TEXT = 512
# Rooms above, which know accounts, pass a function that adds users' own entries.
VisibilityOf = Callable[..., Visibility]


def reason_of(text: str) -> str:
    reason = require_reason(text)
    if len(reason) > LONGEST_TEXT:
        raise invalid("reason", f"has at most {LONGEST_TEXT} characters")
    return reason


def text_of(value: str, where: str, longest: int = LONGEST_TEXT) -> str:
    try:
        return clean_text(value, longest).strip()
    except ValueError as error:
        raise invalid(where, str(error)) from None


def amount_of(value: object, where: str, most: float) -> float:
    """Return a finite number from 0 to `most`; raise Invalid otherwise."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value <= most:  # type: ignore[operator]
        raise invalid(where, f"must be a number from 0 to {most:g}")
    return float(value) + 0.0  # type: ignore[arg-type]


def refuse_days(starts_on: date, ends_on: date | None) -> None:
    """Raise Invalid for days that make no period; the error names the field to correct."""
    for where, day in (("starts_on", starts_on), ("ends_on", ends_on)):
        if day is not None and not FIRST_DAY <= day <= LAST_DAY:
            raise invalid(where, f"must be a day from {FIRST_DAY} to {LAST_DAY}")
    if ends_on is not None and ends_on < starts_on:
        raise invalid("ends_on", "must not be before starts_on")


def invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


def tag_of_state(key: object, *state: object) -> str:
    """Return a version tag of a row, which editors send back so that concurrent changes are detected."""
    return f"{key}-{sha256(repr(state).encode()).hexdigest()[:12]}"


def deciding(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Callable[[int], bool]:
    """Return a predicate: whether the actor may allocate to the entry with this index.

    Like shares, core-hours are allocated from above an entry; those of the root are the capacity.
    """
    if not actor.has_scope(WRITE):
        return lambda i: False
    rules, given_at = rules_within(actor), Rights(policy, actor, at).at(Verb.EDIT_SHARES)

    def may(i: int) -> bool:
        lineage = [tree.uuid(j) for j in (tree.ancestors(i) or [0])]
        return actor.reaches_entry(lineage) and (rules or not given_at.isdisjoint(lineage))

    return may


def may_decide(*, policy: Policy, tree: TreeColumns, i: int, at: datetime, actor: Actor) -> bool:
    return deciding(policy=policy, tree=tree, at=at, actor=actor)(i)
