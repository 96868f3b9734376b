"""Follow a scheduler's tree: take its new, moved, renamed and removed entries, and leave the shares that are published.

Entries are matched by uid and path as in any import; what then has vanished here and appeared there under another
parent is the same entry, moved. An account of Slurm is found by its name, which its cluster has once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar
from uuid import UUID

import numpy as np

from apps.core.counts import counted
from apps.core.errors import FieldProblem, Invalid
from apps.policies.files.parsed_document import MOST_PROBLEMS, ParsedDocument
from apps.policies.tree.columns import Mask, Node, TreeColumns
from apps.policies.tree.document_merge import IndexArray, WasHere, match_entries
from apps.policies.tree.names import LEAST_SHARES, MAX_DEPTH, MOST_ENTRY_SHARES, RESERVE, new_uids
from apps.policies.tree.slurm_associations import split_association
from apps.policies.tree.working_tree import columns_of

_DIGITS_OF_SHARES = 9  # significant ones of a new entry's shares
_MOST_SKIPPED_NAMED = 3

T = TypeVar("T")
Place = tuple[int, str, bool]  # parent, name, whether it is a group


class Followed(NamedTuple):
    """tree: with all uids set. notes: what the scheduler has and the policy doesn't follow."""

    tree: TreeColumns
    notes: tuple[str, ...]


def follow_document(
    declared: ParsedDocument,
    head: TreeColumns,
    *,
    fitted: TreeColumns | None = None,
    keep_missing: bool = False,
    was_here: WasHere = lambda uids: set(),
) -> Followed:
    """Return the head with the entries and places of a file, without the file's shares of entries that the head has.

    fitted: the head as the file's format would write it. keep_missing: entries that the file lacks stay. Reserves and
    mounts always stay where their parent does: no scheduler has them. What is below a mount stays as it is.

    Raises:
        Invalid: entries that stay have the place of others (`name_taken`), or the tree gets too deep (`bad_document`).
    """
    fitted = head if fitted is None else fitted
    return _Following(declared, head, fitted, matches(declared, head, fitted, was_here), keep_missing).result()


def matches(declared: ParsedDocument, head: TreeColumns, fitted: TreeColumns, was_here: WasHere) -> IndexArray:
    """Return the index in the head of each entry of a file, moved and renamed ones too; −1 if it is new."""
    return _Matching(declared, head, fitted, match_entries(declared, head, fitted, was_here)).result()


class _Matching:
    """Matches what vanished with what appeared, until nothing more is recognised.

    A group is the same elsewhere if it alone of those that vanished, and alone of those that appeared, has the name. It
    is the same under another name if its parent stays and it has the same children by name, at least one; a single
    such pair. A user is the same in another group as a group is, after all groups.
    """

    def __init__(self, declared: ParsedDocument, head: TreeColumns, fitted: TreeColumns, at: IndexArray) -> None:
        self.read, self.head, self.fitted = declared.tree, head, fitted
        self.at = at.copy()
        # A file of paths says of its entries alone whether they are groups, and not of those above them.
        says_groups = "is_group" in declared.carries and declared.says is None
        self.read_groups = self.read.is_group if says_groups else self.read.n_children > 0
        self.head_groups = fitted.is_group if says_groups else fitted.n_children > 0
        if says_groups:
            known = self.at > 0
            self.at[known & (self.read_groups != self.head_groups[np.maximum(self.at, 0)])] = -1
        self.is_fixed = below_mounts(head)

    def result(self) -> IndexArray:
        self._claimed = np.zeros(len(self.head), dtype=np.bool_)
        self._claimed[self.at[self.at >= 0]] = True
        while self._by_name(groups=True) + self._renamed_groups() + self._by_place():
            pass
        self._by_name(groups=False)
        return self.at

    def _new(self, groups: bool) -> list[int]:
        return np.flatnonzero((self.at < 0) & (self.read_groups == groups)).tolist()

    def _gone(self, groups: bool) -> list[int]:
        gone = ~self._claimed & ~self.is_fixed & (self.head_groups == groups)
        gone[0] = False
        return np.flatnonzero(gone).tolist()

    def _claim(self, pairs: Iterable[tuple[int, int]]) -> int:
        n = 0
        for row, entry in pairs:
            self.at[row], self._claimed[entry] = entry, True
            n += 1
        return n

    def _by_name(self, groups: bool) -> int:
        def there(row: int) -> str:
            return _plain(self.read.name[row])

        def here(entry: int) -> str:
            return _plain(self.fitted.name[entry])

        return self._claim(_only_pairs(self._new(groups), self._gone(groups), there, here))

    def _renamed_groups(self) -> int:
        def there(row: int) -> tuple[int, frozenset[str]] | None:
            above = int(self.at[self.read.parent[row]])
            return None if above < 0 else _with_children(above, self.read, row)

        def here(entry: int) -> tuple[int, frozenset[str]] | None:
            return _with_children(int(self.head.parent[entry]), self.fitted, entry)

        return self._claim(_only_pairs(self._new(True), self._gone(True), there, here))

    def _by_place(self) -> int:
        """Match what is below entries that are matched by now."""
        free: dict[Place, int] = {}
        for entry in [*self._gone(True), *self._gone(False)]:
            free[int(self.head.parent[entry]), _plain(self.fitted.name[entry]), bool(self.head_groups[entry])] = entry
        n = 0
        for row in np.flatnonzero(self.at < 0).tolist():  # parents first
            above = int(self.at[self.read.parent[row]])
            place = above, _plain(self.read.name[row]), bool(self.read_groups[row])
            if above >= 0 and place in free:
                n += self._claim([(row, free.pop(place))])
        return n


def _plain(name: str) -> str:
    """The name without the mark of a user of Slurm beside an account of the same name, which may come and go."""
    user, partition = split_association(name)
    return name if partition else user


def _with_children(above: int, tree: TreeColumns, i: int) -> tuple[int, frozenset[str]] | None:
    """What a renamed group keeps: its parent in the head and its children's names; None without children."""
    children = frozenset(tree.name[child] for child in tree.children(i))
    return (above, children) if children else None


def _only_pairs(
    new: Sequence[int], gone: Sequence[int], sign_of_new: Callable[[int], T | None], sign_of_gone: Callable[[int], T]
) -> Iterator[tuple[int, int]]:
    """Pairs of what is new and what is gone that have a sign in common which no other of both has."""
    if not new or not gone:
        return
    signs = {row: sign_of_new(row) for row in new}
    signs_gone = {entry: sign_of_gone(entry) for entry in gone}
    n_new, n_gone = Counter(signs.values()), Counter(signs_gone.values())
    entry_of = {sign: entry for entry, sign in signs_gone.items() if n_gone[sign] == 1}
    for row, sign in signs.items():
        if sign is not None and n_new[sign] == 1 and sign in entry_of:
            yield row, entry_of[sign]


def below_mounts(tree: TreeColumns) -> Mask:
    """Mask of entries below a mount, without the mounts themselves."""
    inside = np.zeros(len(tree), dtype=np.bool_)
    for mount in tree.mount:
        inside |= tree.subtree_mask(mount)
    inside[list(tree.mount)] = False
    return inside


@dataclass
class _Following:
    declared: ParsedDocument
    head: TreeColumns
    fitted: TreeColumns
    at: IndexArray
    keep_missing: bool

    def result(self) -> Followed:
        read, head = self.declared.tree, self.head
        here = list(head.nodes())
        uids = self._uids()
        below = below_mounts(head)
        is_closed = below.copy()  # takes no entries of the scheduler
        is_closed[list(head.mount)] = True
        skipped = np.zeros(len(read), dtype=np.bool_)
        nodes = {0: here[0]}
        for row in range(1, len(read)):
            above, entry = int(read.parent[row]), int(self.at[row])
            goes_in = bool(skipped[above]) or (self.at[above] >= 0 and bool(is_closed[self.at[above]]))
            if entry >= 0 and (below[entry] or goes_in):
                nodes[row] = here[entry]
                skipped[row] = not below[entry]
            elif goes_in:
                skipped[row] = True
            elif entry >= 0:
                nodes[row] = self._placed(here[entry], uids[above], row, entry)
            else:
                nodes[row] = self._new(UUID(bytes=uids[row]), uids[above], row)
        tree = self._with_what_stays({node.uid: node for node in nodes.values()}, here)
        return Followed(tree, tuple(self._notes(skipped)))

    def _uids(self) -> list[bytes]:
        """The uid of each entry of the file; new ones in the order of the file."""
        uids = [raw.tobytes() for raw in self.declared.tree.uid]
        for row in np.flatnonzero(self.at >= 0).tolist():
            uids[row] = self.head.uid[self.at[row]].tobytes()
        fresh = np.flatnonzero(self.at < 0)
        for row, uid in zip(fresh[np.argsort(self.declared.came[fresh])].tolist(), new_uids(len(fresh)), strict=True):
            uids[row] = uid.tobytes()
        return uids

    def _placed(self, node: Node, above: bytes, row: int, entry: int) -> Node:
        read = self.declared.tree
        name = node.name if read.name[row] == self.fitted.name[entry] else read.name[row]
        is_group = node.is_group or bool(read.n_children[row])
        return replace(node, parent_uid=UUID(bytes=above), name=name, is_group=is_group)

    def _new(self, uid: UUID, above: bytes, row: int) -> Node:
        read = self.declared.tree
        is_group = bool(read.is_group[row] or read.n_children[row])
        kind = read.kind_names[int(read.kind_code[row])] or ("group" if is_group else "user")
        shares = None if read.inherit[row] else self._shares(float(read.shares[row]), int(self.at[read.parent[row]]))
        return Node(uid, UUID(bytes=above), read.name[row], kind, shares, is_group)

    def _shares(self, there: float, group: int) -> float:
        """Shares of a new entry in the unit of its group: shares here / shares as the format writes them, the median.

        There as they are, where the group has no such entry, or shares in its unit are none that a policy takes.
        """
        head, fitted = self.head, self.fitted
        below = np.array([] if group < 0 else head.children(group), dtype=np.int64)
        below = below[~head.inherit[below] & (head.shares[below] > 0) & (fitted.shares[below] > 0)]
        unit = float(np.median(head.shares[below] / fitted.shares[below])) if len(below) else 1.0
        here = float(f"{there * unit:.{_DIGITS_OF_SHARES}g}")
        return here if LEAST_SHARES <= here <= MOST_ENTRY_SHARES else there

    def _with_what_stays(self, nodes: dict[UUID, Node], here: Sequence[Node]) -> TreeColumns:
        for node in here:  # what stays as it is goes with its parent; parents come first
            if node.uid in nodes and nodes[node.uid].parent_uid not in nodes and node.parent_uid is not None:
                del nodes[node.uid]
        places = {(node.parent_uid, node.name) for node in nodes.values()}
        below = below_mounts(self.head).tolist()
        problems = []
        for i, node in enumerate(here):
            if node.uid in nodes or node.parent_uid not in nodes:
                continue
            if not (self.keep_missing or below[i] or node.mount is not None or node.kind == RESERVE):
                continue
            if (node.parent_uid, node.name) in places:
                problem = "would stay, but the file has another entry with this parent and name"
                problems.append(FieldProblem(self.head.path(i), problem))
            nodes[node.uid] = node
        if problems:
            message = f"{problems[0].where} {problems[0].message}."
            raise Invalid(message, code="name_taken", fields=problems[:MOST_PROBLEMS])
        tree = columns_of(self._as_groups(nodes).values(), policy_slug=self.head.policy_slug, number=self.head.number)
        if len(tree.level_starts) - 2 > MAX_DEPTH:
            raise Invalid(f"The tree would have more than {MAX_DEPTH} levels.", code="bad_document")
        return tree

    @staticmethod
    def _as_groups(nodes: dict[UUID, Node]) -> dict[UUID, Node]:
        """Whatever has children is a group; a reserve that the scheduler has as an account with some stays none."""
        for uid in {node.parent_uid for node in nodes.values()}:
            node = nodes[uid] if uid is not None else None
            if node is not None and not (node.is_group and node.kind != RESERVE):
                kind = "group" if node.kind == RESERVE else node.kind
                nodes[node.uid] = replace(node, is_group=True, kind=kind)
        return nodes

    def _notes(self, skipped: Mask) -> Iterator[str]:
        rows = np.flatnonzero(skipped).tolist()
        if rows:
            paths = ", ".join(self.declared.tree.path(row) for row in rows[:_MOST_SKIPPED_NAMED])
            more = f" and {len(rows) - _MOST_SKIPPED_NAMED:,} more" if len(rows) > _MOST_SKIPPED_NAMED else ""
            what = counted(len(rows), "entry", "entries")
            yield f"{what} below mounts, where the publishing site decides: {paths}{more}"
