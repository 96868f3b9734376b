"""What a changed tree does to accounts, and whether an actor may publish it: see moves for the rule."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.accounts.names.account_ids import AccountKey
from apps.mapping.moves import moves_of_tree, refusal_of_tree
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.changesets.account_moves import AccountMoves
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns


def account_moves_of_tree(
    policy: Policy, before: TreeColumns, after: TreeColumns, actor: Actor, at: datetime
) -> AccountMoves:
    moves = moves_of_tree(policy, before, after)
    refusal = refusal_of_tree(MapRights(policy, before, actor, at), MapRights(policy, after, actor, at), moves)
    new, n_stay = _staying(policy, before, after)
    is_told = not n_stay or n_stay >= settings.FAIRSHARE_SMALLEST_GROUP
    return AccountMoves(len(moves), refusal.text if refusal else "", new, n_stay if is_told else None)


def _staying(policy: Policy, before: TreeColumns, after: TreeColumns) -> tuple[bool, int]:
    """Whether there are new rules whose reach is a part, and how many accounts these match and leave outside it."""
    standing = set(load_rulebook(policy, before).rules)
    resolver = load_rulebook(policy, after).on(after)
    new = [n for n, rule in enumerate(resolver.rules) if rule.reach_uid is not None and rule not in standing]
    if not new:
        return False, 0
    keys = (AccountKey(*row) for row in Account.objects.values_list(*AccountKey._fields).iterator(chunk_size=20_000))
    return True, sum(resolver.leaves(key, new) for key in keys)
