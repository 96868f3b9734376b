"""Users, projects and departments of a Grid Engine case, and the nodes of its share tree."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from apps.contrib.jobs.algorithms.base import refuse_unknown_fields
from apps.contrib.jobs.algorithms.gridengine.config import LARGEST, LARGEST_USAGE, Config, read_object
from apps.engine.case_fields import read_list, read_number, refuse_repeated
from apps.engine.case_text import RepeatedKeys, shown
from apps.engine.errors import BadCase
from apps.engine.tree import MAX_DEPTH

Kind = Literal["user", "project", "department"]
KINDS: tuple[Kind, ...] = ("user", "project", "department")
_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "user": ("name", "fshare", "oticket", "usage", "project_usage", "idle_s"),
    "project": ("name", "fshare", "oticket", "usage"),
    "department": ("name", "fshare", "oticket", "members"),
}
_MOST_LISTED_OWNERS = 12  # names in a message
DEFAULT = "default"  # the leaf whose shares apply to every user without an own leaf
_MOST_TREE_NODES = 1_000_000


@dataclass(eq=False, frozen=True)
class Owner:
    """A user, project or department: functional shares, override tickets and usage by resource."""

    kind: Kind
    name: str
    fshare: float = 0.0
    oticket: float = 0.0
    usage: Mapping[str, float] = field(default_factory=dict)
    project_usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Owners:
    """Owners by kind and name. Unlisted users are registered by their first job, as `enforce_user auto` does.

    registered: names of these users. deleted: users who were idle for `auto_user_delete_time`; their entry no longer
    has any effect, and a job registers them again, without usage.
    """

    def __init__(self, case: Mapping[str, Any], config: Config) -> None:
        self._config = config
        self.registered: list[str] = []
        self.deleted: list[str] = []
        self.listed: dict[Kind, dict[str, Owner]] = {kind: self._read(case, kind) for kind in KINDS}
        self._unlisted: dict[tuple[Kind, str], Owner] = {}

    def of_job(self, entry: Mapping[str, Any], place: str) -> dict[Kind, Owner]:
        """The owners of one job; a project must be listed if the case lists any."""
        owners: dict[Kind, Owner] = {}
        for kind in KINDS:
            name = read_name(entry, kind, place)
            if name is None:
                continue
            listed = self.listed[kind]
            if kind == "project" and listed and name not in listed:
                names = ", ".join([*listed][:_MOST_LISTED_OWNERS]) + (" …" if len(listed) > _MOST_LISTED_OWNERS else "")
                raise BadCase(f"unknown project {shown(name)}; allowed are {names}", place=f"{place}.project")
            owners[kind] = listed.get(name) or self._register(kind, name)
        return owners

    def _register(self, kind: Kind, name: str) -> Owner:
        if (kind, name) not in self._unlisted:
            if kind == "user":
                self.registered.append(name)
                owner = Owner(kind, name, self._config.auto_user_fshare, self._config.auto_user_oticket)
            else:
                owner = Owner(kind, name)
            self._unlisted[kind, name] = owner
        return self._unlisted[kind, name]

    def _read(self, case: Mapping[str, Any], kind: Kind) -> dict[str, Owner]:
        plural = f"{kind}s"
        owners: dict[str, Owner] = {}
        for index, entry in enumerate(read_list(case, plural)):
            place = f"{plural}[{index}]"
            if not isinstance(entry, dict):
                raise BadCase(f"{shown(entry)} can't be used; an object with a name is allowed", place=place)
            refuse_repeated(entry, place)
            name = read_name(entry, "name", place)
            if name is None:
                raise BadCase("is missing; text that isn't empty is allowed", place=f"{place}.name")
            if name in owners or name in self.deleted:
                raise BadCase(f"two {plural} have the name {shown(name)}; names must differ", place=f"{place}.name")
            place = f"{plural}.{name}"
            refuse_unknown_fields(entry, _FIELDS[kind], place)
            owner = self._read_owner(entry, kind, name, place)
            if kind == "user" and self._is_deleted(entry, place):
                self.deleted.append(name)
            else:
                owners[name] = owner
        return owners

    def _read_owner(self, entry: Mapping[str, Any], kind: Kind, name: str, place: str) -> Owner:
        """Read an owner; a user's missing shares and tickets are those of automatic users."""
        is_user = kind == "user"
        defaults = {
            "fshare": self._config.auto_user_fshare if is_user else 0.0,
            "oticket": self._config.auto_user_oticket if is_user else 0.0,
        }
        fshare, oticket = (
            read_number(entry, key, place, default=default, minimum=0.0, maximum=LARGEST)
            for key, default in defaults.items()
        )
        by_project = read_object(entry, "project_usage", place)
        return Owner(
            kind,
            name,
            fshare,
            oticket,
            usage=_read_usage(read_object(entry, "usage", place), f"{place}.usage"),
            project_usage={
                project: _read_usage(
                    read_object(by_project, project, f"{place}.project_usage"), f"{place}.project_usage.{project}"
                )
                for project in by_project
            },
        )

    def _is_deleted(self, entry: Mapping[str, Any], place: str) -> bool:
        """Whether the user was idle too long.

        `idle_s`: time since an automatic user had a job; others are never deleted.
        """
        idle_s = read_number(entry, "idle_s", place, default=None, minimum=0.0, maximum=LARGEST)
        return idle_s is not None and 0 < self._config.auto_user_delete_time_s <= idle_s


def _read_usage(table: Mapping[str, Any], place: str) -> dict[str, float]:
    return {name: read_number(table, name, place, default=0.0, minimum=0.0, maximum=LARGEST_USAGE) for name in table}


def read_name(entry: Mapping[str, Any], key: str, place: str) -> str | None:
    """Non-empty text; None if absent."""
    value = entry.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise BadCase(f"{shown(value)} can't be used; text that isn't empty is allowed", place=f"{place}.{key}")
    return value


@dataclass(eq=False)
class Node:
    """One node with its shares among its siblings; a leaf is a user or a project."""

    name: str
    shares: float
    is_project: bool = False
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    @property
    def path(self) -> str:
        names = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(names))

    def add(self, child: Node) -> Node:
        child.parent = self
        self.children.append(child)
        return child


def read_share_tree(document: object, *, is_project: Container[str]) -> Node | None:
    """Read the tree of a case, None if there is none; level by level, so that no depth exhausts the stack.

    A node is a project's if its type says so or if its name is in `is_project`.
    """
    if document is None:
        return None
    root = _read_node(document, "sharetree", is_project)
    waiting: list[tuple[object, Node, str, int]] = [(document, root, "sharetree", 0)]
    n_nodes = 1
    while waiting:
        entry, node, place, depth = waiting.pop()
        names: set[str] = set()
        for index, below in enumerate(_read_children(entry, place)):
            child_place = f"{place}.children[{index}]"
            if depth == MAX_DEPTH or n_nodes == _MOST_TREE_NODES:
                limit = f"{MAX_DEPTH} levels" if depth == MAX_DEPTH else f"{_MOST_TREE_NODES} nodes"
                raise BadCase(f"is too much; at most {limit} are allowed", place=_short(child_place))
            child = node.add(_read_node(below, child_place, is_project))
            n_nodes += 1
            if child.name in names:
                raise BadCase(f"two siblings have the name {shown(child.name)}; names must differ", place=child_place)
            names.add(child.name)
            waiting.append((below, child, child_place, depth + 1))
    return root


def _short(place: str) -> str:
    return place if len(place) < 100 else f"{place[:40]}…{place[-40:]}"


def _read_node(entry: object, place: str, is_project: Container[str]) -> Node:
    if not isinstance(entry, dict):
        raise BadCase(f"{shown(entry)} can't be used; an object with name and shares is allowed", place=place)
    if isinstance(entry, RepeatedKeys):
        raise BadCase("given twice", place=f"{place}.{entry.repeated}")
    refuse_unknown_fields(entry, ("name", "shares", "type", "children"), place)
    name, kind = entry.get("name"), entry.get("type")
    if not isinstance(name, str) or not name:
        what = "is missing" if name is None else f"{shown(name)} can't be used"
        raise BadCase(f"{what}; text that isn't empty is allowed", place=f"{place}.name")
    if kind not in (None, "user", "project"):
        raise BadCase(f'{shown(kind)} can\'t be used; "user" or "project" is allowed', place=f"{place}.type")
    shares = read_number(entry, "shares", place, minimum=0.0, maximum=LARGEST)
    return Node(name, shares, is_project=kind == "project" or name in is_project)


def _read_children(entry: object, place: str) -> list[object]:
    children = entry.get("children") if isinstance(entry, dict) else None
    if children is None:
        return []
    if not isinstance(children, list):
        raise BadCase(f"{shown(children)} can't be used; a list is allowed", place=f"{place}.children")
    return children


class Directory:
    """Finds the leaf for the jobs of a user, with or without a project.

    Without a project only leaves outside project nodes are considered; with one, leaves below the project's node, or
    that node itself if it is a leaf. A user without a leaf gets one beside `default`, with its shares.
    """

    def __init__(self, root: Node) -> None:
        self._leaves: dict[str | None, dict[str, Node]] = {None: {}}
        self._projects: dict[str, Node] = {}
        for node in _walk_outside_projects(root):
            if node.is_project:
                self._projects.setdefault(node.name, node)
            elif not node.children:
                self._leaves[None].setdefault(node.name, node)

    def find(self, user: str | None, project: str | None) -> Node | None:
        """The leaf of these jobs; None if the tree has none for them."""
        if project is not None:
            node = self._projects.get(project)
            if node is None or not node.children:
                return node
            if project not in self._leaves:
                below = (leaf for leaf in _walk_outside_projects(node) if not leaf.is_project and not leaf.children)
                self._leaves[project] = {leaf.name: leaf for leaf in reversed(list(below))}
        return self._find_leaf(self._leaves[project], user)

    def _find_leaf(self, leaves: dict[str, Node], user: str | None) -> Node | None:
        if user is None:
            return None
        if user not in leaves and (default := leaves.get(DEFAULT)) is not None and default.parent is not None:
            leaves[user] = default.parent.add(Node(user, default.shares))
        return leaves.get(user)


def _walk_outside_projects(root: Node) -> Iterator[Node]:
    """Walk depth first in the order of siblings; yields project nodes, but not what is below them."""
    waiting = list(reversed(root.children))
    while waiting:
        node = waiting.pop()
        yield node
        if not node.is_project:
            waiting.extend(reversed(node.children))
