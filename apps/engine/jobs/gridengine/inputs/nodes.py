"""Nodes of the share tree: read from a case, and found for a user and a project."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from apps.engine.case_text import RepeatedKeys, shown
from apps.engine.errors import BadCase
from apps.engine.jobs.fields import read_number, refuse_unknown_fields
from apps.engine.jobs.gridengine.inputs.config import LARGEST
from apps.engine.tree import MAX_DEPTH

DEFAULT = "default"  # the leaf whose shares every user without a leaf of their own gets
_MOST_NODES = 1_000_000


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


def read_share_tree(given: object, *, is_project: Container[str]) -> Node | None:
    """The tree of a case, None where there is none; level by level, so that no depth exhausts the stack.

    A node is a project's if its type says so or if its name is in `is_project`.
    """
    if given is None:
        return None
    root = _read_node(given, "sharetree", is_project)
    waiting: list[tuple[object, Node, str, int]] = [(given, root, "sharetree", 0)]
    n_nodes = 1
    while waiting:
        entry, node, place, depth = waiting.pop()
        names: set[str] = set()
        for index, below in enumerate(_read_children(entry, place)):
            child_place = f"{place}.children[{index}]"
            if depth == MAX_DEPTH or n_nodes == _MOST_NODES:
                limit = f"{MAX_DEPTH} levels" if depth == MAX_DEPTH else f"{_MOST_NODES} nodes"
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
    """Where the jobs of a user, with or without a project, belong.

    Without a project only leaves outside of project nodes count; with one, leaves below the project's node, or that
    node itself where it is a leaf. A user without a leaf gets one beside `default`, with its shares.
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
        """The leaf of these jobs; None where the tree has no place for them."""
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
    """Depth first in the order of siblings; a project node is met, what is below it is not."""
    waiting = list(reversed(root.children))
    while waiting:
        node = waiting.pop()
        yield node
        if not node.is_project:
            waiting.extend(reversed(node.children))
