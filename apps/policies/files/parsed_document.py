"""Collect the entries of a file into a validated tree; all problems are reported together, with line and path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.policies.tree.columns import SCOPES, Mask, TreeColumns
from apps.policies.tree.names import (
    MAX_DEPTH,
    MOST_CHILDREN_OF_ENTRY,
    MOST_POLICY_ENTRIES,
    PARENT,
    RESERVE,
    clean_kind,
    clean_name,
    clean_shares,
    read_name,
)
from apps.policies.tree.terms import Dates, MembershipRule, MountedPublication, read_dates, read_members, read_mounted
from apps.policies.tree.working_tree import breadth_first

VALUES = ("kind", "shares", "is_group", "scope", "scope_sources", "locked", "dates", "members", "mount")
MOST_PROBLEMS = 50
_MOST_ENTRY_KINDS = 1_000
_NO_UID = b"\0" * 16


@dataclass(frozen=True)
class ParsedDocument:
    """A tree read from a file without problems; uids are zero and kinds empty where the file gives none.

    came: (n,) position of each entry in the file, which orders siblings. carries: fields that the file format contains.
    says: mask of entries that the file describes, the others are only part of a path; None means all. where: returns
    the location of an entry in the file. ignored: contents of the file that a policy doesn't store. sections: lists of
    plug-ins by key, as the file has them.
    """

    tree: TreeColumns
    came: npt.NDArray[np.int64]
    settings: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""
    carries: frozenset[str] = frozenset(VALUES)
    says: Mask | None = None
    where: Callable[[int], str] = lambda i: ""
    ignored: tuple[str, ...] = ()
    sections: Mapping[str, Any] = field(default_factory=dict)


class _Problem(NamedTuple):
    row: int
    key: str
    message: str
    line: int


class DocumentBuilder:
    """Builds a tree: validates entries one by one, parents first, and returns all as columns at the end."""

    def __init__(self) -> None:
        self.uid: list[bytes] = []
        self.parent: list[int] = []
        self.level: list[int] = []
        self.line: list[int] = []
        self.name: list[str] = []
        self.kind: list[int] = []
        self.shares: list[float] = []
        self.inherit: list[bool] = []
        self.is_group: list[bool] = []
        self.scope: list[int] = []
        self.locked: list[bool] = []
        self.sources: dict[int, tuple[str, ...]] = {}
        self.dates: dict[int, Dates] = {}
        self.members: dict[int, tuple[MembershipRule, ...]] = {}
        self.mount: dict[int, MountedPublication] = {}
        self.problems: list[_Problem] = []
        self._kinds: dict[str, int] = {"": 0}
        self._children: dict[int, dict[str, int]] = {}

    def add(
        self,
        parent: int,
        name: object,
        *,
        line: int = 0,
        place: str = "name",
        uid: object = None,
        kind: object = "",
        shares: object = 1,
        is_group: bool = False,
    ) -> int:
        """Add an entry and return its row, or −1 if its name is invalid or repeated, or its parent was rejected.

        place: location of the name below the parent's path, for problems.
        """
        clean = self._place(parent, name, line, place)
        if clean is None:
            return -1
        row = len(self.name)
        if row >= MOST_POLICY_ENTRIES:
            raise TooLarge(f"A policy has at most {MOST_POLICY_ENTRIES:,} entries.")
        self.parent.append(parent)
        self.level.append(0 if parent < 0 else self.level[parent] + 1)
        self.line.append(line)
        self.name.append(clean)
        if parent >= 0:
            self._children.setdefault(parent, {})[clean] = row
            self.is_group[parent] = True
        self.uid.append(self._uid(row, uid))
        self.kind.append(self._kind(row, kind))
        self.is_group.append(is_group)
        self.scope.append(0)
        self.locked.append(False)
        self._weigh(row, shares)
        return row

    def child(self, parent: int, name: str) -> int | None:
        return self._children.get(parent, {}).get(name)

    def path(self, row: int) -> str:
        parts = []
        while row > 0:
            parts.append(self.name[row])
            row = self.parent[row]
        return "/" + "/".join(reversed(parts))

    def problem(self, row: int, key: str, message: str, line: int = 0) -> None:
        """Record a problem; row −1 is the file as a whole. Raises Invalid after MOST_PROBLEMS problems."""
        self.problems.append(_Problem(row, key, message, line or (self.line[row] if row >= 0 else 0)))
        if len(self.problems) >= MOST_PROBLEMS:
            self.refuse()

    def set_scope(self, row: int, scope: object, sources: object) -> None:
        if not isinstance(scope, str) or scope not in SCOPES:
            self.problem(row, "scope", 'must be "local" or "global"')
            return
        self.scope[row] = SCOPES.index(scope)
        try:
            if not isinstance(sources, list | tuple) or (sources and not scope):
                raise ValueError("must be a list of sources' slugs, together with a scope")
            if sources:
                self.sources[row] = tuple(dict.fromkeys(map(clean_name, sources)))
        except ValueError as error:
            self.problem(row, "sources", str(error))

    def set_locked(self, row: int, value: object) -> None:
        if not isinstance(value, bool):
            self.problem(row, "locked", "must be true or false")
        self.locked[row] = value is True

    def set_dates(self, row: int, value: object) -> None:
        try:
            dates = read_dates(value)
        except ValueError as error:
            self.problem(row, "dates", str(error))
            return
        if dates is not None:
            self.dates[row] = dates
        if self.parent[row] < 0:
            self.problem(row, "dates", "the root has no shares, so it can't have dates")

    def set_mount(self, row: int, value: object) -> None:
        try:
            mounted = read_mounted(value)
        except ValueError as error:
            self.problem(row, "mount", str(error))
            return
        if mounted is not None:
            self.mount[row] = mounted
            self.is_group[row] = True

    def set_members(self, row: int, value: object) -> None:
        try:
            members = read_members(value)
        except ValueError as error:
            self.problem(row, "members", str(error))
            return
        if members:
            self.members[row] = members
            self.is_group[row] = True

    def finish(self, **more: Any) -> ParsedDocument:
        """Return the tree in breadth-first order, siblings by name; raise Invalid with all problems."""
        self._check_whole()
        self.refuse()
        names = self.name
        rank = np.empty(len(names), dtype=np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order, parent = breadth_first(np.array(self.parent, dtype=np.int64), rank)
        rows = order.tolist()
        is_sparse = self.sources or self.dates or self.members or self.mount
        place = {row: i for i, row in enumerate(rows)} if is_sparse else {}
        kind_names, kind_code = self._kinds_in(order)
        tree = TreeColumns(
            uid=np.frombuffer(b"".join(self.uid), dtype=np.uint8).reshape(-1, 16)[order],
            parent=parent,
            name=[names[row] for row in rows],
            kind_names=kind_names,
            kind_code=kind_code,
            shares=np.array(self.shares, dtype=np.float64)[order],
            inherit=np.array(self.inherit, dtype=np.bool_)[order],
            is_group=np.array(self.is_group, dtype=np.bool_)[order],
            scope_code=np.array(self.scope, dtype=np.uint8)[order],
            scope_sources={place[row]: value for row, value in self.sources.items()},
            locked=np.array(self.locked, dtype=np.bool_)[order],
            dates={place[row]: value for row, value in self.dates.items()},
            members={place[row]: value for row, value in self.members.items()},
            mount={place[row]: value for row, value in self.mount.items()},
        )
        if "says" in more:
            more["says"] = np.array(more["says"], dtype=np.bool_)[order]
        return ParsedDocument(tree, order, where=lambda i: self.where(rows[i], ""), **more)

    def where(self, row: int, key: str, line: int = 0) -> str:
        line = line or (self.line[row] if row >= 0 else 0)
        parts = [f"line {line}"] if line else []
        if row >= 0:
            parts.append(self.path(row))
        return ", ".join(parts) + (f": {key}" if key and parts else key)

    def refuse(self) -> None:
        if not self.problems:
            return
        self.find_lines()
        problems = sorted(self.problems, key=lambda problem: problem.line)[:MOST_PROBLEMS]
        fields = [FieldProblem(self.where(p.row, p.key, p.line), p.message) for p in problems]
        raise Invalid(f"{fields[0].where} {fields[0].message}.", code="bad_document", fields=fields)

    def find_lines(self) -> None:
        """Set the lines of problems, for readers that determine lines only when needed."""

    def _place(self, parent: int, name: object, line: int, place: str) -> str | None:
        if parent < 0 and self.name:
            return None  # another root was rejected
        try:
            # Existing entries may keep names that are invalid for new ones, which `refuse_new_names` rejects later.
            clean = read_name(name)
        except ValueError as error:
            self.problem(parent, place, str(error), line)
            return None
        if parent < 0:
            return clean
        taken = self._children.get(parent, {})
        if clean in taken:
            first = self.line[taken[clean]]
            message = f"{clean!r} is repeated{f', first in line {first}' if first else ''}"
            self.problem(parent, place, f"{message}; siblings need different names", line)
            return None
        if len(taken) >= MOST_CHILDREN_OF_ENTRY:
            raise TooLarge(
                f"{self.path(parent)} has too many children: at most {MOST_CHILDREN_OF_ENTRY:,} are allowed."
            )
        if self.level[parent] >= MAX_DEPTH:
            message = f"{self.path(parent)} has children below level {MAX_DEPTH}, the deepest allowed"
            self.problem(parent, place, message, line)
            return None
        return clean

    def _weigh(self, row: int, shares: object) -> None:
        is_root = self.parent[row] < 0
        self.inherit.append(shares == PARENT and not is_root)
        try:
            self.shares.append((1.0 if is_root else clean_shares("null" if shares is None else shares)) or 0.0)
        except ValueError as error:
            self.shares.append(0.0)
            self.problem(row, "shares", str(error))

    def _uid(self, row: int, value: object) -> bytes:
        if value is None:
            return _NO_UID
        try:
            digits = value.replace("-", "") if isinstance(value, str) else ""
            if len(digits) == 32 and digits.isalnum():  # five times faster than UUID()
                return bytes.fromhex(digits)
            return UUID(value if isinstance(value, str) else "").bytes
        except ValueError:
            self.problem(row, "uid", "must be a UUID; leave it out for a new entry")
            return _NO_UID

    def _kind(self, row: int, value: object) -> int:
        known = self._kinds.get(value) if isinstance(value, str) else None
        if known is not None:
            return known
        try:
            kind = clean_kind(value)
        except ValueError as error:
            self.problem(row, "kind", str(error))
            return 0
        if len(self._kinds) > _MOST_ENTRY_KINDS:
            raise TooLarge(f"A policy has at most {_MOST_ENTRY_KINDS:,} different kinds.")
        return self._kinds.setdefault(kind, len(self._kinds))

    def _kinds_in(self, order: Any) -> tuple[tuple[str, ...], Any]:
        code = np.array(self.kind, dtype=np.int64)[order]
        used = np.flatnonzero(np.bincount(code, minlength=len(self._kinds)))
        known = list(self._kinds)
        names = sorted(known[i] for i in used.tolist())
        new_code = np.array([names.index(kind) if kind in names else 0 for kind in known], dtype=np.uint16)
        return tuple(names), new_code[code]

    def _check_whole(self) -> None:
        """Run the checks that need all entries: reserves and repeated uids."""
        reserve = self._kinds.get(RESERVE)
        if reserve is not None:
            for row in [row for row, kind in enumerate(self.kind) if kind == reserve]:
                if self.inherit[row] or self.is_group[row] or self.parent[row] < 0:
                    self.problem(
                        row, "kind", "a reserve must have its own shares and no children, and can't be the root"
                    )
        seen: dict[bytes, int] = {}
        for row, uid in enumerate(self.uid):
            if uid != _NO_UID and seen.setdefault(uid, row) != row:
                self.problem(row, "uid", f"is also the uid of {self.path(seen[uid])}")
