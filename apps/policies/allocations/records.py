"""What every change of an allocation or a capacity shares: a reason, a tag of the edited state, a log row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.audit.log import record
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.policies.access.scope import WRITE, Rights, Verb, Visibility, rules_all
from apps.policies.allocations.periods import FIRST_DAY, LAST_DAY
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text

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


@contextmanager
def refusals_on_record(verb: str, actor: Actor, at: datetime, **event: Any) -> Iterator[None]:
    """An attempt that was refused is logged too, after the transaction that it ended."""
    try:
        yield
    except NotAllowed as error:
        record(actor=actor, verb=verb, at=at, outcome="refused", reason=error.message, **event)
        raise
