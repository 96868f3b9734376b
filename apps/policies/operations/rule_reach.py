"""How far a membership rule reaches: recorded at publish, from the rights of the publisher.

A rule moves accounts from entries below its reach, and unmapped accounts (see `priorities.mapping`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.terms import WHOLE_POLICY, Members
from apps.policies.tree.working_tree import WorkingTree


class Author(NamedTuple):
    """reach: the uid of the highest entry above a rule where its author maps accounts, or `*`. written_at: now."""

    reach: str
    written_at: str


def record_reach(
    rules: Iterable[Members], *, standing: Sequence[Members], author: Author | None, tree: WorkingTree
) -> tuple[Members, ...]:
    """Rules as they are to be stored. standing: the entry's present ones, which keep their reach.

    A reach that comes with a rule (from an earlier revision) is kept within the author's own. author None: no
    publisher, and what isn't recorded stays so.
    """
    known = {rule: rule for rule in standing}
    return tuple(known.get(rule) or _recorded(rule, author, tree) for rule in rules)


def narrow_reach(rules: Iterable[Members], *, author: Author | None, tree: WorkingTree) -> tuple[Members, ...]:
    """Rules of an archived entry that comes back: none reaches further than the rights of who restores it."""
    return tuple(rule if not rule.reach else _recorded(rule, author, tree) for rule in rules)


def record_reach_of_tree(tree: TreeColumns, head: TreeColumns, at: datetime) -> TreeColumns:
    """A whole tree, which administrators alone put in place: new rules have the reach of the whole policy."""
    author, found = Author(WHOLE_POLICY, at.astimezone(UTC).isoformat()), {}
    for i, rules in tree.members.items():
        before = head.index_of_uid(tree.uuid(i))
        standing = () if before is None else head.members.get(before, ())
        found[i] = record_reach(rules, standing=standing, author=author, tree=WorkingTree(tree))
    return replace(tree, members=found, digest="")


def _recorded(rule: Members, author: Author | None, tree: WorkingTree) -> Members:
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
