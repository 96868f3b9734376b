"""Which account counts where, from names alone: the rules a first policy begins with. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from glob import escape
from uuid import UUID

import numpy as np

from apps.mapping.rules.rule import Rule, text_of
from apps.policies.tree.columns import TreeColumns

MOST_RULES = 5_000


def default_rules(tree: TreeColumns, namespace: str, decisions: Sequence[Mapping[str, str]] = ()) -> tuple[Rule, ...]:
    """Decided accounts first; then group and user by name at the root, then groups further down, then users alone.

    A scheduler knows a group by its name anywhere in the tree, so each group below the first level that has
    a name of its own gets a rule. decisions: as in Beginning.
    """
    rules = [_decided(one, namespace) for one in decisions]
    root = tree.uuid(0)
    for names in ("/{group}/{user}", "/{project}/{user}"):
        rules.append(Rule(kind="glob", target_uid=root, namespace=namespace, user_pattern="*", suffix=names))
    for i in _nested_groups(tree)[:MOST_RULES]:
        rules.append(
            Rule(
                kind="group",
                target_uid=tree.uuid(i),
                namespace=namespace,
                suffix="/{user}",
                group_pattern=escape(text_of(tree.name[i])),
            )
        )
    if _has_users_at_the_top(tree):
        rules.append(Rule(kind="glob", target_uid=root, namespace=namespace, user_pattern="*", suffix="/{user}"))
    return tuple(rules)


def _decided(one: Mapping[str, str], namespace: str) -> Rule:
    user, group, fqan = (one.get(name, "") for name in ("user_pattern", "group_pattern", "fqan_pattern"))
    return Rule(
        kind="exact",
        target_uid=UUID(one["entry"]),
        namespace=namespace,
        user_pattern=user,
        group_pattern=group,
        fqan_pattern=fqan,
    )


def _nested_groups(tree: TreeColumns) -> list[int]:
    """Groups below the first level whose name no other group has."""
    groups = np.flatnonzero(tree.takes_members & (tree.level > 0)).tolist()
    times = Counter(tree.name[i] for i in groups)
    return [i for i in groups if tree.level[i] > 1 and times[tree.name[i]] == 1]


def _has_users_at_the_top(tree: TreeColumns) -> bool:
    top = list(tree.children(0))
    return any(not tree.takes_members[i] and not tree.is_reserve[i] for i in top)
