"""Find the node of a Grid Engine job in its share tree, as the scheduler does. Pure.

A job of a project counts within the node of that project, and a job without a project outside of all projects. There,
the user's node decides, wherever it is; else the leaf `default`, which is the node of all users without their own. A
project that has neither counts the job itself. A job of a project that the tree lacks counts nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from apps.mapping.rules.entry_names import entry_name
from apps.policies.tree.columns import TreeColumns

DEFAULT_LEAF = "default"
_PROJECT = "project"


@dataclass(frozen=True, eq=False)
class ShareTree:
    """The nodes below one entry of a tree. Of several nodes of a name the first counts, depth first."""

    tree: TreeColumns
    top: int

    def node_of(self, user: str, project: str) -> int | None:
        """Return the node of a job's user and project ("" for none); None if there is none."""
        place = self._place_of(project)
        if place is None or not self.tree.n_children[place]:
            return place
        leaves = self._leaves.get(place, {})
        names = (user, entry_name(user), DEFAULT_LEAF)
        leaf = next((leaves[name] for name in names if name in leaves), None)
        return place if leaf is None and project else leaf

    def project_of(self, node: int) -> str:
        """Return the project in whose subtree a node is; "" for none."""
        place = self._place_of_node[node] if node < len(self._place_of_node) else self.top
        return "" if place in (self.top, -1) else self.tree.name[place]

    def likely_node(self, user: str, project: str) -> int | None:
        """Return the only node whose name, or whose project's name, differs by letter case alone; None if it has its
        own."""
        places = [self._place_of(project)]
        if places[0] is None:
            places = [at for name, at in self._projects.items() if name.lower() == project.lower()]
        if len(places) != 1 or places[0] is None:
            return None
        leaves = self._leaves.get(places[0], {})
        alike = [at for name, at in leaves.items() if name.lower() == entry_name(user).lower()]
        return alike[0] if len(alike) == 1 else None

    def _place_of(self, project: str) -> int | None:
        if not project:
            return self.top
        return self._projects.get(project, self._projects.get(entry_name(project)))

    @cached_property
    def _order(self) -> list[int]:
        """The nodes below the top, depth first."""
        waiting, nodes = list(reversed(self.tree.listed_children(self.top))), []
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            waiting += reversed(self.tree.listed_children(node))
        return nodes

    @cached_property
    def _place_of_node(self) -> list[int]:
        """The project, or the top, in which each entry of the tree is; −1 for entries elsewhere."""
        places, kinds = [-1] * len(self.tree), self.tree.kind
        places[self.top] = self.top
        for node in self._order:
            above = places[int(self.tree.parent[node])]
            places[node] = node if kinds[node] == _PROJECT else above
        return places

    @cached_property
    def _projects(self) -> Mapping[str, int]:
        projects: dict[str, int] = {}
        for node in self._order:
            if self._place_of_node[node] == node:
                projects.setdefault(self.tree.name[node], node)
        return projects

    @cached_property
    def _leaves(self) -> Mapping[int, Mapping[str, int]]:
        """The leaves of each project, and of the top, by name."""
        leaves: dict[int, dict[str, int]] = {}
        for node in self._order:
            if not self.tree.n_children[node] and not self.tree.is_reserve[node]:
                place = self._place_of_node[node]
                if place != node:
                    leaves.setdefault(place, {}).setdefault(self.tree.name[node], node)
        return leaves
