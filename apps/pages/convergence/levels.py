"""Levels of the convergence page: the entries whose children it can show, and the one that is the reader's own."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import ngettext

from apps.policies.access.scope import list_own_levels
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences import numbers

MOST_LEVELS_ABOVE = 200


@dataclass(frozen=True, slots=True)
class LevelChoice:
    """label: its path from the root's children on, and how many entries it compares."""

    uid: UUID
    label: str
    is_chosen: bool


def own_level(view: PolicyView) -> UUID | None:
    """The first of the reader's own levels with entries to compare; None for the root, and without such a level."""
    levels = list_own_levels(policy=view.policy, tree=view.tree, actor=view.actor, at=view.now)
    at = next((i for i in levels if not i or view.visible_children(i)), 0)
    return view.tree.uuid(at) if at else None


def level_of(view: PolicyView, entry: UUID) -> UUID | None:
    """The parent of an entry; the own level for one that isn't there or hidden."""
    i = view.tree.index_of_uid(entry)
    if not i or not view.visibility.may_see(i):
        return own_level(view)
    parent = int(view.tree.parent[i])
    return view.tree.uuid(parent) if parent > 0 else None


def list_levels(view: PolicyView, chosen: UUID | None) -> list[LevelChoice]:
    """Visible entries with visible children, the root first, at most two hundred; and the chosen one."""
    tree = view.tree
    levels: list[int] = []
    row = [0] if view.visibility.may_see(0) else []
    while row and len(levels) < MOST_LEVELS_ABOVE:
        below: list[int] = []
        for i in row:
            children = view.visible_children(i)
            if children:
                levels.append(i)
                below += children
        row = below
    levels = levels[:MOST_LEVELS_ABOVE]
    at = None if chosen is None else tree.index_of_uid(chosen)
    if at is not None and at not in levels:
        levels.append(at)
    first, *others = levels or [0]
    ordered = [first, *sorted(others, key=tree.path)]
    return [LevelChoice(tree.uuid(i), _label(view, i), (at or 0) == i) for i in ordered]


def _label(view: PolicyView, i: int) -> str:
    name = view.tree.name[0] if i == 0 else view.tree.path(i).strip("/").replace("/", " / ")
    n = len(view.visible_children(i))
    text = ngettext("%(name)s, %(n)s entry", "%(name)s, %(n)s entries", n)
    return text % {"name": name, "n": numbers.count(n)}
