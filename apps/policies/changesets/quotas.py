"""How much one person keeps open: drafts, proposals, and operations in them.

Any person who signs in may draft and propose. Without a bound one of them fills the table, and the inbox of those who
decide.
"""

from __future__ import annotations

from django.db.models import F, Func, IntegerField, Sum

from apps.accounts.actor import Actor
from apps.core.errors import Conflict
from apps.policies.models import ChangeSet

MOST_DRAFTS = 50  # what the list of own drafts shows
MOST_PROPOSALS = 30  # of one person in the inbox of those who decide
MOST_OPEN_OPERATIONS = 100_000  # ten of the largest change sets
_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_PROPOSED = (ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)


def require_room_for_draft(actor: Actor, n_operations: int) -> None:
    """Raise Conflict `too_many_drafts` or `too_many_operations` if the actor may keep no further draft of this size."""
    if actor.user is None:
        return
    drafts = ChangeSet.objects.filter(author=actor.user, state=ChangeSet.State.DRAFT, policy__archived_at=None)
    if drafts.count() >= MOST_DRAFTS:
        message = f"You have {MOST_DRAFTS} drafts, the most allowed: publish, propose or withdraw one first."
        raise Conflict(message, code="too_many_drafts")
    require_room_for_operations(actor, n_operations)


def require_room_for_operations(actor: Actor, n_operations: int, *, instead_of: ChangeSet | None = None) -> None:
    """Raise Conflict `too_many_operations`. instead_of: the change set whose operations these replace."""
    if actor.user is None:
        return
    others = ChangeSet.objects.filter(author=actor.user, state__in=_OPEN, policy__archived_at=None)
    if instead_of is not None:
        others = others.exclude(pk=instead_of.pk)
    length = Func(F("operations"), function="jsonb_array_length", output_field=IntegerField())
    n_open = others.aggregate(n=Sum(length))["n"] or 0
    if n_open + n_operations > MOST_OPEN_OPERATIONS:
        message = (
            f"Your open change sets would have {n_open + n_operations:,} operations, and {MOST_OPEN_OPERATIONS:,} are"
            " the most allowed: publish or withdraw one first."
        )
        raise Conflict(message, code="too_many_operations")


def require_room_for_proposal(actor: Actor) -> None:
    """Raise Conflict `too_many_proposals`."""
    if actor.user is None:
        return
    waiting = ChangeSet.objects.filter(author=actor.user, state__in=_PROPOSED, policy__archived_at=None)
    if waiting.count() >= MOST_PROPOSALS:
        message = (
            f"{MOST_PROPOSALS} of your proposals wait for a decision, the most allowed: withdraw one, or wait for an"
            " answer."
        )
        raise Conflict(message, code="too_many_proposals")
