"""A document becomes the next revision: its entries are recognised in the head, and what differs is found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apps.policies.columns import SPARSE, U1, Mask, Node, TreeColumns
from apps.policies.document import Document
from apps.policies.publishing import NextRevision
from apps.policies.settings import PolicySettings

IndexArray = npt.NDArray[np.int64]


def adopt(document: Document, head: TreeColumns, settings: PolicySettings) -> NextRevision:
    """Recognise entries by uid, else by path; the rest is new, and what it leaves out is archived."""
    read = document.tree
    in_head = _recognised(read, head)
    uid = read.uid.copy()
    known = in_head >= 0
    uid[known] = head.uid[in_head[known]]
    nameless = ~uid.any(axis=1)
    uid[nameless] = _new_uids(int(nameless.sum()))
    tree = replace(read, uid=uid, policy_slug=head.policy_slug, number=head.number)
    changed = ~known | _differs(tree, head, in_head)
    left_out = np.ones(len(head), dtype=np.bool_)
    left_out[in_head[known]] = False
    closes = left_out.copy()
    closes[in_head[known & changed]] = True
    opened = np.flatnonzero(changed)
    closed = [head.uuid(i) for i in np.flatnonzero(closes).tolist()]
    n_changed = len(closed) + int((~known).sum())
    return NextRevision(tree, settings, closed, _nodes(tree, changed), len(opened), n_changed)


def _recognised(read: TreeColumns, head: TreeColumns) -> IndexArray:
    """For each entry of the document its entry in the head, −1 where it has none."""
    found = np.full(len(read), -1, dtype=np.int64)
    given = np.flatnonzero(read.uid.any(axis=1))
    claimed = set()
    for i in given.tolist():
        j = head.index_of_uid(read.uuid(i))
        if j is not None:
            found[i] = j
            claimed.add(j)
    has_uid = np.zeros(len(read), dtype=np.bool_)
    has_uid[given] = True
    for i in np.flatnonzero(~has_uid).tolist():
        parent = int(read.parent[i])
        above = 0 if parent < 0 else int(found[parent])
        if above < 0 or (parent >= 0 and not head.n_children[above]):
            continue
        same = 0 if parent < 0 else head.child_named(above, read.name[i])
        if same is not None and same not in claimed:
            found[i] = same
    return found


def _differs(tree: TreeColumns, head: TreeColumns, in_head: IndexArray) -> Mask:
    """Whether an entry says something else than its entry in the head; meaningless where it has none."""
    there = np.maximum(in_head, 0)
    root_or_parent = np.maximum(tree.parent, 0), np.maximum(head.parent[there], 0)
    differs = (tree.uid[root_or_parent[0]] != head.uid[root_or_parent[1]]).any(axis=1)
    differs |= (tree.parent < 0) != (head.parent[there] < 0)
    for column in ("shares", "inherit", "is_group", "scope_code", "locked"):
        differs |= getattr(tree, column) != getattr(head, column)[there]
    codes = {kind: code for code, kind in enumerate(head.kind_names)}
    code_in_head = np.array([codes.get(kind, -1) for kind in tree.kind_names], dtype=np.int64)
    differs |= code_in_head[tree.kind_code] != head.kind_code[there]
    names = head.name
    differs |= np.array([name != names[j] for name, j in zip(tree.name, there.tolist(), strict=True)], dtype=np.bool_)
    for name in SPARSE:
        ours, theirs = getattr(tree, name), getattr(head, name)
        for i in {*ours, *np.flatnonzero(np.isin(there, list(theirs))).tolist()}:
            differs[i] |= ours.get(i) != theirs.get(int(there[i]))
    return np.asarray(differs, dtype=np.bool_)


def _nodes(tree: TreeColumns, mask: Mask) -> Iterator[Node]:
    if mask.sum() > len(tree) // 4:
        return (node for node, wanted in zip(tree.nodes(), mask.tolist(), strict=True) if wanted)
    return (tree.node(i) for i in np.flatnonzero(mask).tolist())


def _new_uids(n: int) -> U1:
    """Random UUIDs (version 4) in rising order: a million are written at the end of the indexes."""
    uids = np.frombuffer(os.urandom(16 * n), dtype=np.uint8).reshape(n, 16).copy()
    uids[:, 6] = uids[:, 6] & 0x0F | 0x40
    uids[:, 8] = uids[:, 8] & 0x3F | 0x80
    halves = uids.view(">u8")
    return uids[np.lexsort((halves[:, 1], halves[:, 0]))]
