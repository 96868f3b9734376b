"""Entries whose children come from another authority: no other change is published below them."""

from __future__ import annotations

from uuid import UUID

import numpy as np

from apps.core.errors import FieldProblem, NotAllowed
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import changed_entries
from apps.policies.tree.document_merge import indexes_of

_MOST_NAMED = 50


def mount_of(tree: TreeColumns, i: int) -> int | None:
    """The mount that an entry is or lies below; None for our own."""
    return next((step for step in [i, *reversed(tree.ancestors(i))] if step in tree.mount), None)


def refuse_inside_mounts(head: TreeColumns, following: TreeColumns) -> None:
    """Refuse a tree that changes what lies below an entry that stays a mount: that is its authority's to change.

    Raises:
        NotAllowed: code mounted, naming the entries.
    """
    stay = {head.uuid(i) for i in head.mount} & {following.uuid(i) for i in following.mount}
    if not stay:
        return
    changed, gone = changed_entries(head, following)
    in_head = indexes_of(following.uid, head)
    wrong = [head.path(i) for i in np.flatnonzero(gone).tolist() if _above(head, i) in stay]
    for i in np.flatnonzero(changed).tolist():
        before = int(in_head[i])
        if _above(following, i) in stay or (before >= 0 and _above(head, before) in stay):
            wrong.append(following.path(i))
    if wrong:
        message = "is below a mount, and only its own site changes that"
        fields = [FieldProblem(path, message) for path in wrong[:_MOST_NAMED]]
        raise NotAllowed(f"{fields[0].where} {message}.", code="mounted", fields=fields)


def _above(tree: TreeColumns, i: int) -> UUID | None:
    """The mount that an entry lies below; a mount itself is ours."""
    parent = int(tree.parent[i])
    mount = mount_of(tree, parent) if parent >= 0 else None
    return None if mount is None else tree.uuid(mount)
