"""Items that plug-ins add to the navigation, by `PluginConfig.nav_items`, and parts of the frame by `frame_parts`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from apps.core.plugins import plugins


class NavSection(StrEnum):
    MAIN = "main"
    POLICY = "policy"
    DATA = "data"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class NavCounter:
    """Open matters of an item, counted for every page.

    counted: their name, for screen readers; lazy. ids_sql: query of the ids of all that may count, which becomes part
    of the one query of the frame; its parameters are user, an id, and at, an instant. count: called with `ids`, its
    result, `at` and `actor`, returns how many the actor may see.
    """

    counted: Any
    ids_sql: str
    count: Callable[..., int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NavItem:
    """A link of the navigation to a page of a plug-in.

    label: lazy. routes: name of the page's route, then patterns of the routes of its sub-pages. position: in its
    section, where the items of the core have multiples of ten. is_of_policy: its URL has the shown policy. key: pressed
    after "g". is_shown: called with `at` and `actor`. is_for_users: also in the navigation of users without a role,
    below the items of the core.
    """

    label: Any
    icon: str
    routes: Sequence[str]
    section: NavSection
    position: int
    is_of_policy: bool = False
    is_for_users: bool = False
    key: str = ""
    is_shown: Callable[..., bool] | None = None
    counter: NavCounter | None = None


@cache
def plugin_items() -> Sequence[NavItem]:
    """Items of the installed plug-ins by position."""
    items = [item for plugin in plugins() for item in plugin.nav_items()]
    return tuple(sorted(items, key=lambda item: item.position))


@cache
def counters() -> Mapping[str, NavCounter]:
    """Counters of the items of the installed plug-ins, by the route of the item."""
    return {item.routes[0]: item.counter for item in plugin_items() if item.counter is not None}


@cache
def frame_parts() -> Mapping[str, Sequence[str]]:
    """Templates of the installed plug-ins by the place that shows them: topbar or end."""
    parts: dict[str, list[str]] = {"topbar": [], "end": []}
    for plugin in plugins():
        for place, template in plugin.frame_parts().items():
            parts[place].append(template)
    return parts
