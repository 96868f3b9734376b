"""Periods of allocations, and what every change of an allocation or a capacity shares: a reason, a tag, a log row.

A period is days and the hours that are really in them: a day of a clock change has 23 or 25, a leap year one day more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import FieldProblem, Invalid
from apps.policies.access.scope import WRITE, Rights, Verb, Visibility, rules_all
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text

# --- Periods ----------------------------------------------------------------------------------------------------------
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2999, 12, 31)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """From the beginning of its first day to the end of its last, both of them in it."""

    starts_on: date
    ends_on: date

    def __post_init__(self) -> None:
        if not FIRST_DAY <= self.starts_on <= self.ends_on <= LAST_DAY:
            raise ValueError(f"a period goes from one day to a later one, from {FIRST_DAY} to {LAST_DAY}")

    @property
    def n_days(self) -> int:
        return (self.ends_on - self.starts_on).days + 1

    def __contains__(self, day: date) -> bool:
        return self.starts_on <= day <= self.ends_on

    def overlap(self, other: Period) -> Period | None:
        """The days that both have."""
        starts_on, ends_on = max(self.starts_on, other.starts_on), min(self.ends_on, other.ends_on)
        return Period(starts_on, ends_on) if starts_on <= ends_on else None

    def instants(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """When it begins and when it is over, in UTC."""
        return begins_at(self.starts_on, zone), begins_at(self.ends_on + DAY, zone)

    def hours(self, zone: ZoneInfo, *, until: datetime | None = None) -> float:
        """Real hours between its begin and its end, or between its begin and an instant within it."""
        begin, end = self.instants(zone)
        stop = end if until is None else min(max(until, begin), end)
        return (stop - begin) / HOUR


def begins_at(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a day, in UTC: where the clock is set at midnight, what comes right after the change."""
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


def day_of(at: datetime, zone: ZoneInfo) -> date:
    return at.astimezone(zone).date()


def whole_year(day: date) -> Period:
    return Period(date(day.year, 1, 1), date(day.year, 12, 31))


def uncovered(period: Period, parts: Sequence[Period]) -> list[Period]:
    """The days of a period that none of the parts has."""
    left, day = [], period.starts_on
    for part in sorted(each for each in parts if each.overlap(period)):
        if part.starts_on > day:
            left.append(Period(day, part.starts_on - DAY))
        day = max(day, part.ends_on + DAY)
    if day <= period.ends_on:
        left.append(Period(day, period.ends_on))
    return left


# --- Changes ----------------------------------------------------------------------------------------------------------
LONGEST_TEXT = 512
VisibilityOf = Callable[..., Visibility]  # rooms that know accounts add their owners


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
    """A finite number from 0 on."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value <= most:  # type: ignore[operator]
        raise invalid(where, f"must be a number from 0 to {most:g}")
    return float(value) + 0.0  # type: ignore[arg-type]


def refuse_days(starts_on: date, ends_on: date | None) -> None:
    """Reject days that make no period; the error names the field to correct."""
    for where, day in (("starts_on", starts_on), ("ends_on", ends_on)):
        if day is not None and not FIRST_DAY <= day <= LAST_DAY:
            raise invalid(where, f"must be a day from {FIRST_DAY} to {LAST_DAY}")
    if ends_on is not None and ends_on < starts_on:
        raise invalid("ends_on", "must not be before starts_on")


def invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


def tag_of_state(key: object, *state: object) -> str:
    """Names one state of one row, which an editor sends back to prove that it is current."""
    return f"{key}-{sha256(repr(state).encode()).hexdigest()[:12]}"


def deciding(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Callable[[int], bool]:
    """Core-hours of an entry are given from above it, like its shares; those of the root are the site's own."""
    if not actor.has_scope(WRITE):
        return lambda i: False
    bound = actor.token.subtree_uid if actor.token else None
    rules, given_at = rules_all(actor), Rights(policy, actor, at).at(Verb.EDIT_SHARES)

    def may(i: int) -> bool:
        lineage = [tree.uuid(j) for j in (tree.ancestors(i) or [0])]
        return (bound is None or bound in lineage) and (rules or not given_at.isdisjoint(lineage))

    return may


def may_decide(*, policy: Policy, tree: TreeColumns, i: int, at: datetime, actor: Actor) -> bool:
    return deciding(policy=policy, tree=tree, at=at, actor=actor)(i)


def log(
    verb: str,
    policy: Policy,
    *,
    entry_uid: UUID | None,
    subject: str,
    reason: str,
    details: Mapping[str, Any],
    at: datetime,
    actor: Actor,
) -> None:
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=policy.slug,
        entry_uid=entry_uid,
        subject=subject,
        reason=reason,
        details=details,
    )
