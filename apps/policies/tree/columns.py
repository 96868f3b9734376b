"""A revision's tree as immutable columns, and its conversion to and from the revision's blob."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.core import blobs
from apps.core.name_index import NameIndex
from apps.core.strings import Strings
from apps.engine.algorithms.inputs import release
from apps.engine.tree import FairshareTree
from apps.policies.tree.names import PARENT, RESERVE, creation_ranks
from apps.policies.tree.terms import Dates, MembershipRule, MountedPublication, read_dates, read_members, read_mounted

SCOPES = ("", "local", "global")
_NODES_AT_ONCE = 10_000
_PATHS_AT_ONCE = 50_000  # numpy keeps Python's lock meanwhile
_MOST_OBJECTS = 100_000  # names; of more entries they are read where they are needed
# Columns that hold a value for few entries, as mappings by index.
SPARSE = ("scope_sources", "dates", "members", "mount")
ENTRY_COLUMNS = ("uid", "parent", "kind_code", "shares", "inherit", "is_group", "scope_code", "locked")

U1 = npt.NDArray[np.uint8]
I4 = npt.NDArray[np.int32]
F8 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Node:
    """One entry. `shares` is None for *inherit*; `parent_uid` is None for the root."""

    uid: UUID
    parent_uid: UUID | None
    name: str
    kind: str = "group"
    shares: float | None = 1.0
    is_group: bool = True
    scope: str = ""
    scope_sources: tuple[str, ...] = ()
    locked: bool = False
    dates: Dates | None = None
    members: tuple[MembershipRule, ...] = ()
    mount: MountedPublication | None = None

    def field_json(self, name: str) -> Any:
        """Return a field as JSON, as documents, differences and API responses write it."""
        value = getattr(self, name)
        if name == "shares":
            return PARENT if value is None else value
        if name == "members":
            return [rule.to_json() for rule in value]
        if isinstance(value, UUID):
            return str(value)
        if isinstance(value, Dates | MountedPublication):
            return value.to_json()
        return list(value) if isinstance(value, tuple) else value


FIELDS = tuple(each.name for each in fields(Node) if each.name != "uid")


_OF_SHAPE = (
    *("n_children", "first_child", "level_starts", "level", "places", "listed"),
    *("names", "all_paths", "name_index", "uid_halves"),
)


@dataclass(frozen=True, eq=False)
class TreeColumns:
    """Entries in breadth-first order; siblings are contiguous and sorted by name (code points); entry 0 is the root.

    uid: u1 (n, 16). parent: i4, −1 for the root. shares: f8, 0 where `inherit`. scope_sources, dates, members, mount:
    by index, only for entries that have a value.
    """

    uid: U1
    parent: I4
    name: Sequence[str]
    kind_names: tuple[str, ...]
    kind_code: npt.NDArray[np.uint16]
    shares: F8
    inherit: Mask
    is_group: Mask
    scope_code: U1
    scope_sources: Mapping[int, tuple[str, ...]]
    locked: Mask
    dates: Mapping[int, Dates] = field(default_factory=dict)
    members: Mapping[int, tuple[MembershipRule, ...]] = field(default_factory=dict)
    mount: Mapping[int, MountedPublication] = field(default_factory=dict)
    policy_slug: str = ""
    number: int = 0
    digest: str = ""

    def __post_init__(self) -> None:
        for column in ENTRY_COLUMNS:
            getattr(self, column).flags.writeable = False

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def is_large(self) -> bool:
        """Whether names and paths are read where they are needed, without an object for each."""
        return len(self) > _MOST_OBJECTS

    def with_values(self, **columns: Any) -> TreeColumns:
        """These entries with other values. What follows from their uids, parents and names is kept."""
        made = replace(self, digest="", **columns)
        vars(made).update({name: vars(self)[name] for name in _OF_SHAPE if name in vars(self)})
        return made

    @cached_property
    def n_children(self) -> I4:
        return np.bincount(self.parent[1:], minlength=len(self)).astype(np.int32)

    @cached_property
    def first_child(self) -> I4:
        counts = self.n_children.astype(np.int64)
        return (1 + np.cumsum(counts) - counts).astype(np.int32)

    @cached_property
    def level_starts(self) -> tuple[int, ...]:
        """Index of the first entry of each level, followed by n."""
        starts = [0]
        for level in self.subtree(0):
            starts.append(level.stop)
        return tuple(starts)

    @cached_property
    def level(self) -> npt.NDArray[np.int16]:
        """Level of each entry, 0 for the root."""
        sizes = np.diff(np.array(self.level_starts))
        return np.repeat(np.arange(len(sizes), dtype=np.int16), sizes)

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """The index of each entry, (n,), for all who match entries of this tree with its own: read-only."""
        places = np.arange(len(self))
        places.flags.writeable = False
        return places

    def children(self, i: int) -> range:
        first = int(self.first_child[i])
        return range(first, first + int(self.n_children[i]))

    @cached_property
    def listed(self) -> npt.NDArray[np.int64]:
        """Indices of all entries, (n,): breadth-first, with siblings in the order of their creation."""
        return np.lexsort((creation_ranks(self.uid), self.parent))

    def listed_children(self, i: int) -> list[int]:
        """Return the children in the order of their creation: files list them so, which lets an import preserve it."""
        here = self.children(i)
        children: list[int] = self.listed[here.start : here.stop].tolist()
        return children

    def subtree(self, i: int) -> list[range]:
        """Return the entry and its descendants as one contiguous range of indices per level."""
        levels, lo, hi = [], i, i + 1
        while lo < hi:
            levels.append(range(lo, hi))
            lo, hi = int(self.first_child[lo]), int(self.first_child[hi - 1]) + int(self.n_children[hi - 1])
        return levels

    def subtree_mask(self, i: int) -> Mask:
        mask = np.zeros(len(self), dtype=np.bool_)
        for level in self.subtree(i):
            mask[level.start : level.stop] = True
        return mask

    def combine_up(self, combine: np.ufunc, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Combine each entry's whole number (n,) with those of all below it, in place. combine: such as `np.add`.

        Other threads run meanwhile: `ufunc.at` would keep Python's lock for a tenth of a second.
        """
        starts = self.level_starts
        for above, lo, hi in zip(starts[-3::-1], starts[-2:0:-1], starts[:1:-1], strict=True):
            parents = above + np.flatnonzero(self.n_children[above:lo])
            below = combine.reduceat(numbers[lo:hi], self.first_child[parents] - lo)
            numbers[parents] = combine(numbers[parents], below)

    def ancestors(self, i: int) -> list[int]:
        """Return the ancestors, root first, without the entry itself."""
        ancestors = []
        while (i := int(self.parent[i])) >= 0:
            ancestors.append(i)
        return ancestors[::-1]

    def whole_of(self, i: int) -> int:
        """The entry whose whole the target of another one is a part of: its parent, or above parents that inherit."""
        above = max(int(self.parent[i]), 0)
        while self.inherit[above] and above:
            above = int(self.parent[above])
        return above

    @cached_property
    def kind(self) -> list[str]:
        return [self.kind_names[code] for code in self.kind_code.tolist()]

    @cached_property
    def scope(self) -> list[str]:
        return [SCOPES[code] for code in self.scope_code.tolist()]

    @cached_property
    def is_reserve(self) -> Mask:
        return self._is_kind(RESERVE)

    @cached_property
    def takes_members(self) -> Mask:
        """Mask of entries that may have children: all except users without children and reserves."""
        takes_members: Mask = self.is_group | (self.n_children > 0) | ~(self._is_kind("user") | self.is_reserve)
        return takes_members

    def _is_kind(self, kind: str) -> Mask:
        if kind not in self.kind_names:
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray(self.kind_code == self.kind_names.index(kind))

    def path(self, i: int) -> str:
        """Return a path such as `/physics/alice`; the root is `/`, and its name is not part of paths."""
        if "all_paths" in vars(self):
            return self.all_paths[i]
        names = []
        while i > 0:
            names.append(self.name[i])
            i = int(self.parent[i])
        return "/" + "/".join(names[::-1])

    def names_of(self, entries: npt.NDArray[np.integer[Any]]) -> list[str]:
        """Return the name of each entry."""
        names = self.name
        return list(names.take(entries)) if isinstance(names, Strings) else [names[i] for i in entries.tolist()]

    def texts_of(self, entries: npt.NDArray[np.integer[Any]]) -> Strings:
        """Return the name of each entry, without an object for each where there are many entries."""
        return self.name.take(entries) if isinstance(self.name, Strings) else Strings.of(self.names_of(entries))

    def paths(self, entries: npt.NDArray[np.integer[Any]]) -> list[str]:
        """Return the path of each entry."""
        if "all_paths" in vars(self):
            return list(self.all_paths.take(entries))
        parents = self.parent[entries].tolist()
        above = {parent: self.path(parent) if parent > 0 else "" for parent in dict.fromkeys(parents)}
        paths = [f"{above[parent]}/{name}" for parent, name in zip(parents, self.names_of(entries), strict=True)]
        for row in np.flatnonzero(entries == 0).tolist():
            paths[row] = self.path(0)
        return paths

    @cached_property
    def all_paths(self) -> Strings:
        """`path` of every entry, as files of large trees have them. Elsewhere a path is made when it is read."""
        levels, above = [Strings.of(["/"])], Strings.of([""])
        for level in self.subtree(0)[1:]:
            first = self.level_starts[len(levels) - 1]
            begins = range(level.start, level.stop, _PATHS_AT_ONCE)
            blocks = [slice(lo, min(lo + _PATHS_AT_ONCE, level.stop)) for lo in begins]
            above = Strings.joined([self._below(above, first, block) for block in blocks])
            levels.append(above)
        return Strings.joined(levels)

    def _below(self, paths: Strings, first: int, block: slice) -> Strings:
        """Paths of a block of entries of one level. paths: of the level above, from its first entry on."""
        names = self.names.take(self.places[block])
        steps = Strings(b"/" * len(names), np.arange(1, len(names) + 1)).beside(names)
        return paths.take(self.parent[block] - first).beside(steps)

    def index_of_path(self, path: str) -> int | None:
        i = 0
        for name in path.strip("/").split("/") if path.strip("/") else ():
            child = self.child_named(i, name)
            if child is None:
                return None
            i = child
        return i

    def child_named(self, i: int, name: str) -> int | None:
        children = self.children(i)
        at = bisect_left(self.name, name, children.start, children.stop)
        return at if at < children.stop and self.name[at] == name else None

    @cached_property
    def names(self) -> Strings:
        """The name of each entry, without an object for each."""
        return Strings.of(self.name)

    @cached_property
    def name_index(self) -> NameIndex:
        return NameIndex(self.names)

    @cached_property
    def has_small_names(self) -> bool:
        """Whether all letters of names are small ones of ASCII: siblings are then in order without regard to case."""
        utf8 = np.frombuffer(self.names.utf8, np.uint8)
        return not ((utf8 >= ord("A")) & (utf8 <= ord("Z")) | (utf8 >= 128)).any()

    @cached_property
    def groups_by_name(self) -> Mapping[str, tuple[int, ...]]:
        """Indices of entries below the root that may have children, by name, at any level."""
        by_name: dict[str, tuple[int, ...]] = {}
        for i in (1 + np.flatnonzero(self.takes_members[1:])).tolist():
            by_name[self.name[i]] = (*by_name.get(self.name[i], ()), i)
        return by_name

    @cached_property
    def groups_by_lower_name(self) -> Mapping[str, tuple[int, ...]]:
        """As `groups_by_name`, by the name in lower case."""
        by_name: dict[str, tuple[int, ...]] = {}
        for name, places in self.groups_by_name.items():
            by_name[name.lower()] = (*by_name.get(name.lower(), ()), *places)
        return by_name

    @cached_property
    def has_capitals_in_leaves(self) -> bool:
        """Whether the name of a leaf has a capital letter."""
        leaves = (name for name, is_group in zip(self.name, self.takes_members.tolist(), strict=True) if not is_group)
        return any(name != name.lower() for name in leaves)

    def uuid(self, i: int) -> UUID:
        return UUID(bytes=self.uid[i].tobytes())

    @cached_property
    def uid_halves(self) -> tuple[I4, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """The order of entries by uid, and both halves of the uids in this order."""
        halves = np.ascontiguousarray(self.uid).view(">u8").astype(np.uint64)
        order = np.ascontiguousarray(halves[:, 0]).argsort()
        high = halves[order, 0]
        if (high[1:] == high[:-1]).any():  # seldom, and it takes ten times as long
            order = np.lexsort((halves[:, 1], halves[:, 0]))
        return order.astype(np.int32), high, halves[order, 1]

    def index_of_uid(self, uid: UUID) -> int | None:
        """Return an entry's index, or None. Searches both halves, because foreign uids may share the first one."""
        order, high, low = self.uid_halves
        wanted_high, wanted_low = np.uint64(uid.int >> 64), np.uint64(uid.int & 0xFFFF_FFFF_FFFF_FFFF)
        begin = int(high.searchsorted(wanted_high))
        if begin == len(high) or high[begin] != wanted_high:
            return None
        if low[begin] == wanted_low:  # the usual case: no other uid shares the first half
            return int(order[begin])
        end = int(high.searchsorted(wanted_high, "right"))
        at = begin + int(low[begin:end].searchsorted(wanted_low))
        return int(order[at]) if at < end and low[at] == wanted_low else None

    def node(self, i: int) -> Node:
        parent = int(self.parent[i])
        return Node(
            uid=self.uuid(i),
            parent_uid=None if parent < 0 else self.uuid(parent),
            name=self.name[i],
            kind=self.kind_names[int(self.kind_code[i])],
            shares=None if self.inherit[i] else float(self.shares[i]),
            is_group=bool(self.is_group[i]),
            scope=SCOPES[int(self.scope_code[i])],
            scope_sources=self.scope_sources.get(i, ()),
            locked=bool(self.locked[i]),
            dates=self.dates.get(i),
            members=self.members.get(i, ()),
            mount=self.mount.get(i),
        )

    def nodes(self) -> Iterator[Node]:
        """Yield all entries, breadth-first."""
        for first in range(0, len(self), _NODES_AT_ONCE):
            yield from self.nodes_of(range(first, min(first + _NODES_AT_ONCE, len(self))))

    def nodes_of(self, entries: range) -> Iterator[Node]:
        """Yield the nodes of consecutive entries."""
        here = slice(entries.start, entries.stop)
        parents = self.parent[here].tolist()
        uid_of_parent = {parent: self.uuid(parent) if parent >= 0 else None for parent in dict.fromkeys(parents)}
        columns = zip(
            entries,
            _rows_of(self.uid[here]),
            parents,
            self.name[here],
            self.kind_code[here].tolist(),
            self.shares[here].tolist(),
            self.inherit[here].tolist(),
            self.is_group[here].tolist(),
            self.scope_code[here].tolist(),
            self.locked[here].tolist(),
            strict=True,
        )
        for i, raw_uid, parent, name, kind, shares, inherit, is_group, scope, locked in columns:
            yield Node(
                uid=UUID(bytes=raw_uid),
                parent_uid=uid_of_parent[parent],
                name=name,
                kind=self.kind_names[kind],
                shares=None if inherit else shares,
                is_group=is_group,
                scope=SCOPES[scope],
                scope_sources=self.scope_sources.get(i, ()),
                locked=locked,
                dates=self.dates.get(i),
                members=self.members.get(i, ()),
                mount=self.mount.get(i),
            )

    def effective_scope(self, i: int) -> tuple[str, tuple[str, ...]]:
        """Return the scope by which the entry's children are compared, and its sources; () means all sources."""
        stated = next((j for j in [i, *reversed(self.ancestors(i))] if self.scope_code[j]), None)
        if stated is None:
            return "local", ()
        return SCOPES[int(self.scope_code[stated])], self.scope_sources.get(stated, ())

    def effective_scopes(self, local: Collection[UUID] = ()) -> tuple[I4, list[tuple[str, tuple[str, ...]]]]:
        """Return for each entry the number of the scope by which its children are compared, and the list of scopes.

        An entry without a scope inherits its parent's; the default is `local` with all sources. local: entries whose
        subtree falls back to local usage: global scopes there become `local`, local ones keep their sources.
        """
        scopes: list[tuple[str, tuple[str, ...]]] = [("local", ())]
        code = np.full(len(self), -1, dtype=np.int32)
        code[0] = 0
        stated = np.flatnonzero(self.scope_code != 0)
        for i in stated.tolist():
            scope = (SCOPES[int(self.scope_code[i])], self.scope_sources.get(i, ()))
            if scope not in scopes:
                scopes.append(scope)
            code[i] = scopes.index(scope)
        for lo, hi in zip(self.level_starts[1:-1], self.level_starts[2:], strict=True):
            here = code[lo:hi]
            code[lo:hi] = np.where(here < 0, code[self.parent[lo:hi]], here)
        is_global = np.array([scope == "global" for scope, _sources in scopes])
        fallen = [self.index_of_uid(uid) for uid in local]
        for top in fallen:
            for level in () if top is None else self.subtree(top):
                here = code[level.start : level.stop]
                here[is_global[here]] = 0
        return code, scopes

    @cached_property
    def _engine_tree(self) -> FairshareTree:
        uid = self.uid  # without a reference to this tree
        tree, order = FairshareTree.from_columns(
            self.parent,
            self.shares,
            inherits=self.inherit,
            is_group=self.is_group,
            is_reserve=self.is_reserve,
            is_user=self._is_kind("user"),
            seniority=lambda: creation_ranks(uid),
        )
        if not np.array_equal(order, np.arange(len(self))):
            raise blobs.CorruptBlob("The stored tree isn't in breadth-first order.")
        return self.owning(replace(tree, parent=self.parent, first_child=self.first_child, child_count=self.n_children))

    def owning(self, tree: FairshareTree) -> FairshareTree:
        """The engine's tree of these entries, of which nothing that was computed outlives this one.

        A page that tries a draft of a million entries frees it with the request.
        """
        weakref.finalize(self, release, tree)
        return tree

    def engine_tree(self) -> FairshareTree:
        """Return the engine's tree of these entries in the same order; ties follow the order of creation."""
        return self._engine_tree

    def same_as(self, other: TreeColumns) -> bool:
        """Return whether both trees have the same entries with the same values."""
        return (
            len(self) == len(other)
            and all(
                np.array_equal(getattr(self, column), getattr(other, column))
                for column in ("uid", "parent", "shares", "inherit", "is_group", "scope_code", "locked")
            )
            and list(self.name) == list(other.name)
            and self.kind == other.kind
            and all(dict(getattr(self, name)) == dict(getattr(other, name)) for name in SPARSE)
        )


def has_same_entries(tree: TreeColumns, other: TreeColumns) -> bool:
    """Whether both trees have the same entries at the same places, whatever their values."""
    if tree is other or tree.uid is other.uid:
        return True
    own, others = (np.ascontiguousarray(each.uid).view(np.uint64) for each in (tree, other))
    return np.array_equal(own, others)


def _rows_of(uid: U1) -> list[bytes]:
    raw = uid.tobytes()
    return [raw[at : at + 16] for at in range(0, len(raw), 16)]


def pack_tree(tree: TreeColumns) -> tuple[bytes, str]:
    """Return the revision's blob and its digest. Names are joined by '/', which no name contains."""
    columns: dict[str, Any] = {
        "uid": tree.uid,
        "parent": tree.parent,
        "names": np.frombuffer("/".join(tree.name).encode(), dtype=np.uint8),
        "kind_code": tree.kind_code,
        "shares": tree.shares,
        "flags": _flags(tree),
        "scope_code": tree.scope_code,
    }
    return blobs.pack(columns, tree_meta(tree))


def tree_meta(tree: TreeColumns) -> dict[str, Any]:
    """What isn't a column, as JSON."""
    meta = {
        "policy": tree.policy_slug,
        "number": tree.number,
        "kinds": list(tree.kind_names),
        "scope_sources": [[i, list(sources)] for i, sources in sorted(tree.scope_sources.items())],
        "dates": [[i, dates.to_json()] for i, dates in sorted(tree.dates.items())],
        "members": [[i, [rule.stored() for rule in rules]] for i, rules in sorted(tree.members.items())],
    }
    if tree.mount:
        meta["mount"] = [[i, mounted.to_json()] for i, mounted in sorted(tree.mount.items())]
    return meta


def _flags(tree: TreeColumns) -> U1:
    return np.packbits(np.stack([tree.inherit, tree.is_group, tree.locked], axis=1), axis=1, bitorder="little")[:, 0]


def unpack_tree(blob: bytes | memoryview, digest: str) -> TreeColumns:
    """Decode a blob of `pack_tree`; raise CorruptBlob if it doesn't match the digest."""
    columns, meta = blobs.unpack(blob, digest)
    flags = columns.pop("flags")
    columns |= {name: (flags >> bit & 1).astype(np.bool_) for bit, name in enumerate(("inherit", "is_group", "locked"))}
    return tree_of({**columns, "name": Strings.split(columns["names"].data, "/")}, meta, digest)


def tree_of(columns: Mapping[str, Any], meta: Mapping[str, Any], digest: str) -> TreeColumns:
    """meta: of `tree_meta`. Of many entries, names are read where they are needed, without an object for each."""
    names = columns["name"]
    return TreeColumns(
        **{name: columns[name] for name in ENTRY_COLUMNS},
        name=names if len(names) > _MOST_OBJECTS else list(names),
        kind_names=tuple(meta["kinds"]),
        scope_sources={i: tuple(sources) for i, sources in meta["scope_sources"]},
        dates={i: dates for i, raw in meta.get("dates", ()) if (dates := read_dates(raw))},
        members={i: read_members(raw, stored=True) for i, raw in meta.get("members", ())},
        mount={i: mounted for i, raw in meta.get("mount", ()) if (mounted := read_mounted(raw))},
        policy_slug=meta["policy"],
        number=meta["number"],
        digest=digest,
    )
