"""Accounts that a change of the tree moves: asked of the room that maps accounts when a change is decided about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.policies.access.scope import rules_all
from apps.policies.models import Policy
from apps.policies.operations.apply import Outcome
from apps.policies.operations.future_trees import trees_to_come
from apps.policies.tree.columns import Node, TreeColumns


class AccountMoves(NamedTuple):
    """Effects of a change on accounts. refusal: why this actor may not publish it, "" when they may.

    is_limited: it has new membership rules that don't reach accounts of entries outside a part of the policy. n_stay:
    how many matching accounts stay at those entries; None where the rule of five hides it.
    """

    n: int = 0
    refusal: str = ""
    is_limited: bool = False
    n_stay: int | None = 0


MovesOf = Callable[[Policy, TreeColumns, TreeColumns, Actor, datetime], AccountMoves]
_known: list[MovesOf] = []
_PLACES = ("parent_uid", "name", "kind", "members")  # fields that decide where accounts count


def register_account_moves(moves: MovesOf) -> None:
    """The room above knows accounts, and says which of them a change moves."""
    _known[:] = [moves]


def account_moves(outcome: Outcome, *, policy: Policy, actor: Actor, at: datetime) -> AccountMoves:
    """What a change does now, or what its dates do later where that alone is refused."""
    found = AccountMoves()
    for moves in _known:
        for after in [outcome.tree, *trees_to_come(outcome.tree, outcome.changes)]:
            if after is not outcome.tree or any(_places(*each) for each in outcome.changes.values()):
                planned = moves(policy, outcome.base, after, actor, at)
                found = planned if after is outcome.tree else found._replace(refusal=found.refusal or planned.refusal)
    return found


def refuse_account_moves(outcome: Outcome, *, policy: Policy, actor: Actor, at: datetime) -> None:
    """NotAllowed (`moves_accounts`) for a change that moves accounts from or to entries of others.

    Administrators decide about all accounts; a token that is bound to a part of the tree doesn't.
    """
    bound = actor.token is not None and actor.token.subtree_uid is not None
    if rules_all(actor) and not bound:
        return
    refusal = account_moves(outcome, policy=policy, actor=actor, at=at).refusal
    if refusal:
        raise NotAllowed(f"{refusal} Propose the change instead.", code="moves_accounts")


def _places(before: Node | None, after: Node | None) -> bool:
    if before is None or after is None:
        return True
    return any(getattr(before, name) != getattr(after, name) for name in _PLACES)
