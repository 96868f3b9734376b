"""What allocations and capacities share: bounds of texts, amounts and days, version tags, and who may decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from hashlib import sha256

from apps.accounts.actor import Actor
from apps.contrib.allocations.periods import FIRST_DAY, LAST_DAY
from apps.core.errors import FieldProblem, Invalid
from apps.policies.access.scope import WRITE, Rights, Verb, Visibility, administers_within_bounds
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text

LONGEST_ALLOCATION_REASON = 512
# Rooms above, which know accounts, pass a function that adds users' own entries.
VisibilityOf = Callable[..., Visibility]


def reason_of(text: str) -> str:
    reason = require_reason(text)
    if len(reason) > LONGEST_ALLOCATION_REASON:
        raise invalid("reason", f"has at most {LONGEST_ALLOCATION_REASON} characters")
    return reason


def text_of(value: str, where: str, longest: int = LONGEST_ALLOCATION_REASON) -> str:
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
    rules, given_at = administers_within_bounds(actor), Rights(policy, actor, at).at(Verb.EDIT_SHARES)

    def may(i: int) -> bool:
        lineage = [tree.uuid(j) for j in (tree.ancestors(i) or [0])]
        return actor.reaches_entry(lineage) and (rules or not given_at.isdisjoint(lineage))

    return may


def may_decide(*, policy: Policy, tree: TreeColumns, i: int, at: datetime, actor: Actor) -> bool:
    return deciding(policy=policy, tree=tree, at=at, actor=actor)(i)
