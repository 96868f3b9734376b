"""What a changed tree does to accounts, and whether an actor may publish it: see mapping_moves for the rule."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.actor import Actor
from apps.accounts.intern import AccountKey
from apps.accounts.models import Account
from apps.policies.account_moves import AccountMoves
from apps.policies.columns import TreeColumns
from apps.policies.models import Policy
from apps.priorities.map_rights import MapRights
from apps.priorities.mapping_moves import accounts_text, moves_of_tree, refusal_of_tree
from apps.priorities.rulebook import load_rulebook


def account_moves_of_tree(
    policy: Policy, before: TreeColumns, after: TreeColumns, actor: Actor, at: datetime
) -> AccountMoves:
    moves = moves_of_tree(policy, before, after)
    refusal = refusal_of_tree(MapRights(policy, before, actor, at), MapRights(policy, after, actor, at), moves)
    n_stay = _count_staying(policy, before, after)
    return AccountMoves(len(moves), refusal.text if refusal else "", accounts_text(n_stay) if n_stay else "")


def _count_staying(policy: Policy, before: TreeColumns, after: TreeColumns) -> int:
    """Accounts that new rules match and leave at entries outside of their reach."""
    standing = set(load_rulebook(policy, before).rules)
    resolver = load_rulebook(policy, after).on(after)
    new = [n for n, rule in enumerate(resolver.rules) if rule.reach_uid is not None and rule not in standing]
    if not new:
        return 0
    keys = (AccountKey(*row) for row in Account.objects.values_list(*AccountKey._fields).iterator(chunk_size=20_000))
    return sum(resolver.leaves(key, new) for key in keys)
