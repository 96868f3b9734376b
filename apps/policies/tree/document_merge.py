"""Merge the tree of a file into the current tree: match entries, keep values that the file doesn't carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.core.errors import FieldProblem, Invalid
from apps.policies.files.parsed_document import MOST_PROBLEMS, ParsedDocument
from apps.policies.formats.whole_shares import competitors, members_of
from apps.policies.publishing.revisions import NextRevision
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import SPARSE, U1, Mask, Node, TreeColumns
from apps.policies.tree.names import MAX_DEPTH, RESERVE, new_name_problem, new_uids
from apps.policies.tree.working_tree import columns_of

IndexArray = npt.NDArray[np.int64]
WasHere = Callable[[Sequence[UUID]], set[UUID]]
_FEW_MOVED = 100  # searching one uid takes as long as reading a hundred


@dataclass(frozen=True)
class _MatchedDocument:
    """A parsed document matched with the head. found: index in the head of each entry of the document, −1 if it is new.

    fitted: the head as the file's format would write it. A value equal to it in the file is no change.
    """

    declared: ParsedDocument
    head: TreeColumns
    fitted: TreeColumns
    found: IndexArray

    @property
    def at(self) -> IndexArray:
        return np.maximum(self.found, 0)

    @property
    def known(self) -> Mask:
        return np.asarray(self.found >= 0)

    def keeps(self, value: str, alike: Mask) -> Mask:
        """Mask of entries whose value stays as in the head."""
        says = np.ones(len(self.found), dtype=np.bool_) if self.declared.says is None else self.declared.says
        unsaid = ~says if value in self.declared.carries else np.ones_like(says)
        return np.asarray(self.known & (unsaid | alike))


def merge_document(
    declared: ParsedDocument,
    head: TreeColumns,
    *,
    fitted: TreeColumns | None = None,
    keep_missing: bool = False,
    was_here: WasHere = lambda uids: set(),
) -> TreeColumns:
    """Return the tree that a file asks for, with all uids set. Values that the file doesn't carry stay as in the head.

    Entries are matched by uid, otherwise by path. keep_missing: entries that the file leaves out stay instead of being
    removed. was_here: returns which uids ever belonged to this policy; entries with other uids are matched by path.
    """
    fitted = head if fitted is None else fitted
    met = _MatchedDocument(declared, head, fitted, match_entries(declared, head, fitted, was_here))
    _refuse_unknown_ancestors(met)
    tree = _with_kept_values(met)
    if keep_missing:
        tree = _with_missing(tree, met)
    _refuse_reserves_with_children(tree)
    return tree


def next_revision(head: TreeColumns, tree: TreeColumns, settings: PolicySettings) -> NextRevision:
    """Return the rows to write when the tree is published: those that differ from the head."""
    in_head = indexes_of(tree.uid, head)
    known = in_head >= 0
    changed = ~known | differs(tree, head, in_head)
    closes = np.ones(len(head), dtype=np.bool_)
    closes[in_head[known]] = changed[known]
    closed = [head.uuid(i) for i in np.flatnonzero(closes).tolist()]
    n_changed = len(closed) + int((~known).sum())
    return NextRevision(tree, settings, closed, _nodes(tree, changed), int(changed.sum()), n_changed)


def indexes_of(uids: U1, tree: TreeColumns) -> IndexArray:
    """Return the index of each uid in a tree, −1 if it is missing.

    Two trees of one policy have most entries at the same index.
    """
    if uids is tree.uid:
        return np.arange(len(uids))
    n = min(len(uids), len(tree))
    place = np.full(len(uids), -1, dtype=np.int64)
    stays = np.flatnonzero(_are_equal(uids[:n], tree.uid[:n]))
    place[stays] = stays
    others = np.flatnonzero(place < 0)
    if len(others) * _FEW_MOVED <= len(tree):
        found = [tree.index_of_uid(UUID(bytes=uids[i].tobytes())) for i in others.tolist()]
        place[others] = [-1 if at is None else at for at in found]
        return place
    wanted, there = (np.ascontiguousarray(each).view("V16").ravel() for each in (uids[others], tree.uid))
    index_of = {uid: i for i, uid in enumerate(there.tolist())}
    place[others] = [index_of.get(uid, -1) for uid in wanted.tolist()]
    return place


def _are_equal(uids: U1, others: U1) -> Mask:
    """Row by row, (n, 16) each: as two numbers, because bytes take four times as long."""
    one, other = (np.ascontiguousarray(each).view(np.uint64) for each in (uids, others))
    return np.asarray((one[:, 0] == other[:, 0]) & (one[:, 1] == other[:, 1]), np.bool_)


def differs(tree: TreeColumns, head: TreeColumns, in_head: IndexArray) -> Mask:
    """Mask of entries that differ from their entry in the head; undefined where `in_head` is −1."""
    there = np.maximum(in_head, 0)
    root_or_parent = np.maximum(tree.parent, 0), np.maximum(head.parent[there], 0)
    is_different = ~_are_equal(tree.uid[root_or_parent[0]], head.uid[root_or_parent[1]])
    is_different |= (tree.parent < 0) != (head.parent[there] < 0)
    for column in ("shares", "inherit", "is_group", "scope_code", "locked"):
        is_different |= getattr(tree, column) != getattr(head, column)[there]
    codes = {kind: code for code, kind in enumerate(head.kind_names)}
    code_in_head = np.array([codes.get(kind, -1) for kind in tree.kind_names], dtype=np.int64)
    is_different |= code_in_head[tree.kind_code] != head.kind_code[there]
    is_different |= tree.names.differ(head.names.take(there))
    for sparse in SPARSE:
        own_values, head_values = getattr(tree, sparse), getattr(head, sparse)
        for i in {*own_values, *np.flatnonzero(np.isin(there, list(head_values))).tolist()}:
            is_different[i] |= own_values.get(i) != head_values.get(int(there[i]))
    return np.asarray(is_different, dtype=np.bool_)


def match_entries(declared: ParsedDocument, head: TreeColumns, fitted: TreeColumns, was_here: WasHere) -> IndexArray:
    """Return the index in the head of each entry of a file, by uid, otherwise by path; −1 if the head lacks it."""
    read = declared.tree
    indexes = indexes_of(read.uid, head)
    has_uid: Mask = np.asarray(read.uid.any(axis=1), dtype=np.bool_)
    foreign = np.flatnonzero(has_uid & (indexes < 0))
    if len(foreign):
        old = {uid.bytes for uid in was_here([read.uuid(i) for i in foreign.tolist()])}
        has_uid[[i for i in foreign.tolist() if read.uid[i].tobytes() not in old]] = False
    lower = np.flatnonzero(indexes[1:] == 0) + 1
    _refuse(declared, lower.tolist(), "has the uid of the policy's root")
    indexes[0] = 0
    claimed = set(indexes[indexes >= 0].tolist())
    by_place = {place: i for i, place in enumerate(zip(fitted.parent.tolist(), fitted.name, strict=True))}
    parents, names = read.parent.tolist(), read.name
    for i in np.flatnonzero(~has_uid).tolist():
        if i:
            above = int(indexes[parents[i]])
            same = by_place.get((above, names[i])) if above >= 0 else None
            if same is not None and same not in claimed:
                indexes[i] = same
    return indexes


def _refuse_unknown_ancestors(met: _MatchedDocument) -> None:
    """Refuse path-only entries that exist neither in the file nor in the policy."""
    if met.declared.says is None:
        return
    lost = np.flatnonzero(~met.declared.says & ~met.known).tolist()
    where = [met.declared.where(i).partition(",")[0] for i in lost[:MOST_PROBLEMS]]
    paths = [met.declared.tree.path(i) for i in lost[:MOST_PROBLEMS]]
    _raise(
        [
            FieldProblem(place, f"parent {path} doesn’t exist. Add a row for it")
            for place, path in zip(where, paths, strict=True)
        ]
    )


def refuse_new_names(declared: ParsedDocument, head: TreeColumns, tree: TreeColumns) -> None:
    """Refuse invalid names of new or renamed entries; existing entries may keep theirs."""
    problems = new_name_problems(tree, head)
    if not problems:
        return
    rows = {declared.tree.path(i): i for i, name in enumerate(declared.tree.name) if new_name_problem(name)}
    fields = [
        FieldProblem(declared.where(rows[path]) or path, f"has a name that {problem}")
        for path, problem in ((tree.path(i), problem) for i, problem in problems.items())
        if path in rows
    ]
    _raise(fields)


def new_name_problems(tree: TreeColumns, head: TreeColumns) -> dict[int, str]:
    """Return, by index in `tree`, why a name is invalid for an entry that didn't have it in `head`."""
    problems = {i: problem for i, name in enumerate(tree.name) if (problem := new_name_problem(name))}
    if not problems:
        return {}
    in_head = indexes_of(tree.uid, head)
    return {
        i: problem for i, problem in problems.items() if in_head[i] < 0 or head.name[int(in_head[i])] != tree.name[i]
    }


def _refuse(declared: ParsedDocument, rows: Sequence[int], message: str) -> None:
    _raise([FieldProblem(declared.where(i) or declared.tree.path(i), message) for i in rows[:MOST_PROBLEMS]])


def _raise(fields: Sequence[FieldProblem]) -> None:
    if fields:
        message = f"{fields[0].where} {fields[0].message}."
        raise Invalid(message, code="bad_document", fields=fields[:MOST_PROBLEMS])


def _with_kept_values(met: _MatchedDocument) -> TreeColumns:
    read, head, fitted, at = met.declared.tree, met.head, met.fitted, met.at
    uid = read.uid.copy()
    uid[met.known] = head.uid[met.found[met.known]]
    nameless = ~uid.any(axis=1)
    fresh = np.flatnonzero(nameless)
    uid[fresh[np.argsort(met.declared.came[fresh])]] = new_uids(len(fresh))
    has_children = read.n_children > 0
    keeps_group = met.keeps("is_group", read.is_group == fitted.is_group[at])
    is_group = np.where(keeps_group, head.is_group[at], read.is_group) | has_children
    kind_names, kind_code = _kinds(met, is_group)
    keeps_scope = met.keeps("scope", read.scope_code == fitted.scope_code[at])
    keeps_lock = met.keeps("locked", read.locked == fitted.locked[at])
    keeps_shares = _keeps_shares(met)
    inherit = np.where(keeps_shares, head.inherit[at], read.inherit)
    shares = np.where(keeps_shares, head.shares[at], read.shares)
    whole = replace(
        read,
        uid=uid,
        name=_names(met),
        kind_names=kind_names,
        kind_code=kind_code,
        is_group=is_group,
        shares=np.where(inherit, 0.0, shares),
        inherit=inherit,
        policy_slug=head.policy_slug,
        scope_code=np.where(keeps_scope, head.scope_code[at], read.scope_code),
        number=head.number,
        locked=np.where(keeps_lock, head.locked[at], read.locked),
        digest="",
        scope_sources=_sparse(met, "scope_sources"),
        dates=_sparse(met, "dates"),
        members=_sparse(met, "members"),
        mount=_sparse(met, "mount"),
    )
    return _in_order(whole, met)


def _names(met: _MatchedDocument) -> list[str]:
    head, fitted, read = met.head.name, met.fitted.name, met.declared.tree.name
    pairs = zip(read, met.found.tolist(), strict=True)
    return [head[j] if j >= 0 and name == fitted[j] else name for name, j in pairs]


def _in_order(tree: TreeColumns, met: _MatchedDocument) -> TreeColumns:
    """Restore sibling order after names that the format had to alter got their original spelling back."""
    if tree.name == met.declared.tree.name:
        return tree
    seen: dict[tuple[int, str], int] = {}
    twice = [
        i for i, place in enumerate(zip(tree.parent.tolist(), tree.name, strict=True)) if seen.setdefault(place, i) != i
    ]
    _refuse(met.declared, twice, "is named like another entry, whose name the file writes differently")
    return columns_of(tree.nodes(), policy_slug=tree.policy_slug, number=tree.number)


def _kinds(met: _MatchedDocument, is_group: Mask) -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    """Return kind names and codes. A kind that the file leaves open becomes `group` or `user`, by `is_group`."""
    head, fitted = met.head.kind, met.fitted.kind
    alike = np.array(
        [kind == fitted[j] for kind, j in zip(met.declared.tree.kind, met.at.tolist(), strict=True)], dtype=np.bool_
    )
    keeps = met.keeps("kind", alike).tolist()
    kinds = [
        head[j] if kept else kind or ("group" if group else "user")
        for kept, kind, j, group in zip(keeps, met.declared.tree.kind, met.at.tolist(), is_group.tolist(), strict=True)
    ]
    names = tuple(sorted(set(kinds)))
    number = {name: code for code, name in enumerate(names)}
    return names, np.array([number[kind] for kind in kinds], dtype=np.uint16)


def _keeps_shares(met: _MatchedDocument) -> Mask:
    """Mask of entries that keep the head's shares. Shares that the format scaled stay only if the whole group is
    unchanged.

    Shares proportional to the head's count as unchanged: a file written for another target may use another scale.
    """
    read, head, fitted, at = met.declared.tree, met.head, met.fitted, met.at
    alike = (read.shares == fitted.shares[at]) & (read.inherit == fitted.inherit[at])
    scaled = (head.shares != fitted.shares) & ~head.inherit & ~fitted.inherit
    if scaled.any():
        alike |= _in_proportion(met, scaled)
    keeps = met.keeps("shares", alike)
    if scaled.any():
        above_there = competitors(head)
        is_scaled = np.zeros(len(head), dtype=np.bool_)
        is_scaled[above_there[scaled]] = True
        above = met.found[competitors(read)]
        is_scaled_here = (above >= 0) & is_scaled[np.maximum(above, 0)] & ~head.inherit[at]
        broken = np.zeros(len(head), dtype=np.bool_)
        broken[above[is_scaled_here & ~keeps]] = True
        keeps &= ~(is_scaled_here & broken[np.maximum(above, 0)])
    return keeps


def _in_proportion(met: _MatchedDocument, scaled: Mask) -> Mask:
    """Mask of entries in scaled groups whose shares in the file are those of the head times one common factor."""
    read, head = met.declared.tree, met.head
    above = competitors(read)
    shares = np.where(met.known & ~read.inherit & ~head.inherit[met.at], head.shares[met.at], np.nan)
    is_proportional: Mask = np.zeros(len(read), dtype=np.bool_)
    is_scaled = np.zeros(len(read), dtype=np.bool_)
    is_scaled[above[met.known & scaled[met.at]]] = True
    for _, members in members_of(above, np.flatnonzero(is_scaled).astype(np.int32)):
        own = members[(members > 0) & ~read.inherit[members]]
        largest = own[np.argmax(read.shares[own])]
        if shares[largest] > 0:
            wanted = shares[own] * (read.shares[largest] / shares[largest])
            is_proportional[own] = bool(np.all(np.abs(wanted - read.shares[own]) <= 1e-9 * read.shares[own]))
    return is_proportional


def _sparse(met: _MatchedDocument, name: str) -> dict[int, Any]:
    own_values, head_values = getattr(met.declared.tree, name), getattr(met.head, name)
    fitted = getattr(met.fitted, name)
    value = "scope" if name == "scope_sources" else name
    result = dict(own_values)
    alike = np.ones(len(met.found), dtype=np.bool_)
    rows = {*own_values, *np.flatnonzero(np.isin(met.found, [*head_values])).tolist()}
    for i in rows:
        alike[i] = own_values.get(i) == fitted.get(int(met.at[i]))
    keeps = met.keeps(value, alike)
    for i in rows:
        if keeps[i]:
            result.pop(i, None)
            if int(met.at[i]) in head_values:
                result[i] = head_values[int(met.at[i])]
    return result


def _with_missing(tree: TreeColumns, met: _MatchedDocument) -> TreeColumns:
    """Keep the entries that the file leaves out below their parents."""
    missing = np.ones(len(met.head), dtype=np.bool_)
    missing[met.found[met.known]] = False
    if not missing.any():
        return tree
    nodes = {node.uid: node for node in tree.nodes()}
    taken = {(node.parent_uid, node.name) for node in nodes.values()}
    problems = []
    for i in np.flatnonzero(missing).tolist():
        node = met.head.node(i)
        parent = nodes.get(node.parent_uid) if node.parent_uid else None
        if (node.parent_uid, node.name) in taken or (parent is not None and parent.kind == RESERVE):
            problems.append(
                FieldProblem(met.head.path(i), "would stay, but the file has another entry with this parent and name")
            )
        if parent is not None and not parent.is_group:
            nodes[parent.uid] = replace(parent, is_group=True)
        nodes[node.uid] = node
    if problems:
        first = problems[0]
        raise Invalid(f"{first.where} {first.message}.", code="name_taken", fields=problems[:MOST_PROBLEMS])
    whole = columns_of(nodes.values(), policy_slug=tree.policy_slug, number=tree.number)
    if len(whole.level_starts) - 2 > MAX_DEPTH:
        raise Invalid(
            f"Together with entries that stay, the tree would have more than {MAX_DEPTH} levels.", code="bad_document"
        )
    return whole


def _refuse_reserves_with_children(tree: TreeColumns) -> None:
    wrong = np.flatnonzero(tree.is_reserve & (tree.is_group | tree.inherit)).tolist()
    if wrong:
        fields = [
            FieldProblem(tree.path(i), "is a reserve, which has a number of shares and no children") for i in wrong
        ]
        raise Invalid(f"{fields[0].where} {fields[0].message}.", code="bad_document", fields=fields[:MOST_PROBLEMS])


def _nodes(tree: TreeColumns, mask: Mask) -> Iterator[Node]:
    if mask.sum() > len(tree) // 4:
        return (node for node, wanted in zip(tree.nodes(), mask.tolist(), strict=True) if wanted)
    return (tree.node(i) for i in np.flatnonzero(mask).tolist())
