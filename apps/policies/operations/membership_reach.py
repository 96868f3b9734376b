"""How far a membership rule reaches: its author's rights bound it, recorded when the rule is published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.terms import WHOLE_POLICY, MembershipRule
from apps.policies.tree.working_tree import WorkingTree


class Author(NamedTuple):
    """Limits of new membership rules. reach: uid of the highest entry where the author maps accounts, or `*`."""

    reach: str
    written_at: str


def record_reach(
    rules: Iterable[MembershipRule], *, standing: Sequence[MembershipRule], author: Author | None, tree: WorkingTree
) -> tuple[MembershipRule, ...]:
    """Return rules with their reach, to be stored. standing: the entry's current rules, which keep their reach.

    A reach that is part of a rule (restored from an earlier revision) is limited to the author's. author None: no
    publisher; rules without a reach stay so.
    """
    known = {rule: rule for rule in standing}
    return tuple(known.get(rule) or _with_reach(rule, author, tree) for rule in rules)


def narrow_reach(
    rules: Iterable[MembershipRule], *, author: Author | None, tree: WorkingTree
) -> tuple[MembershipRule, ...]:
    """Limit the reach of a restored entry's rules to the rights of the user who restores it."""
    return tuple(rule if not rule.reach else _with_reach(rule, author, tree) for rule in rules)


def record_reach_of_tree(tree: TreeColumns, head: TreeColumns, at: datetime) -> TreeColumns:
    """Give new rules of a whole tree, which only administrators publish, the reach of the whole policy."""
    author, members = Author(WHOLE_POLICY, at.astimezone(UTC).isoformat()), {}
    for i, rules in tree.members.items():
        before = head.index_of_uid(tree.uuid(i))
        standing = () if before is None else head.members.get(before, ())
        members[i] = record_reach(rules, standing=standing, author=author, tree=WorkingTree(tree))
    return replace(tree, members=members, digest="")


def _with_reach(rule: MembershipRule, author: Author | None, tree: WorkingTree) -> MembershipRule:
    if author is None:
        return rule
    if author.reach == WHOLE_POLICY:
        written_at = rule.written_at if rule.reach and rule.written_at else author.written_at
        return replace(rule, reach=rule.reach or WHOLE_POLICY, written_at=written_at)
    reach = rule.reach if rule.reach and _is_below(rule.reach, author.reach, tree) else author.reach
    return replace(rule, reach=reach, written_at=author.written_at)


def _is_below(reach: str, top: str, tree: WorkingTree) -> bool:
    node = None if reach == WHOLE_POLICY else tree.get(UUID(reach))
    return node is not None and any(str(step.uid) == top for step in tree.lineage(node))
