"""An entry as callers name it: by its uid, or by its path."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request

from apps.api.authentication import actor_of
from apps.core import clock
from apps.mapping.visibility import see
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree


def entry_uid(request: Request, policy_slug: str, text: str) -> UUID:
    """A uid as it is, also of an archived entry; a path only where the caller sees it."""
    try:
        return UUID(text)
    except ValueError:
        pass
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    sees = see(policy=policy, tree=tree, at=clock.now(), actor=actor)
    return tree.uuid(sees.require(tree.index_of_path(text)))


def reach_json(tree: TreeColumns, reach: int | None) -> dict[str, str | None]:
    """Of a rule: the entry below which it maps accounts, None for the whole policy. It lies above the rule's entry, so
    that everyone who sees the latter sees it.
    """
    if reach is None:
        return {"reach": None, "reach_path": None}
    return {"reach": str(tree.uuid(reach)), "reach_path": tree.path(reach)}
