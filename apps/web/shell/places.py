"""What is where: the places of the navigation, the tabs of each, whose pages they hold, and who is shown them.

A plug-in adds tabs by `PluginConfig.nav_items`: it names the place, and the tab that its own follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Words, with_additions
from apps.federation.grid.peers import FETCHES, count_alarming
from apps.policies.requests.inbox import UNDECIDED_POLICY_IDS, count_waiting
from apps.web.shell.requests import Visitor


@dataclass(frozen=True, slots=True)
class Counter:
    """Open matters of a tab, counted for every page.

    counted: their name, for screen readers; lazy. ids_sql: query of the ids of all that may count, which becomes part
    of the one query of the frame; its parameters are user, an id, and at, an instant. count: called with `ids`, its
    result, `at` and `actor`, returns how many the actor may see. is_alert: one is a failure.
    """

    counted: Words
    ids_sql: str
    count: Callable[..., int]
    is_alert: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """How many things the page of a tab lists, shown on the pages of its place alone.

    counted: their name, for screen readers; lazy. count: 0 where the visitor is shown no number; one cheap query.
    """

    counted: Words
    count: Callable[[Visitor], int]


@dataclass(frozen=True, slots=True)
class Place:
    """A row of the navigation. group: rows of one group stand together. is_for_users: also for users without a role."""

    label: Words
    icon: str
    group: int
    is_for_users: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A page of a place, by the name of its route.

    label: beside the other tabs. title: its name elsewhere, if the label says too little there. names: parts of its
    address, of policy, uid and name; without one of them it isn't shown. keeps_policy: its query names the policy that
    is shown. pages: names of routes, and patterns of names, of the pages below it. below: the tab to which it belongs,
    if it is none itself. key: pressed after "g". is_shown: whether the visitor has the right to read it. size: how much
    its page lists.
    """

    place: str
    label: Words
    title: Words = ""
    names: Sequence[str] = ()
    keeps_policy: bool = False
    pages: Sequence[str] = ()
    below: str = ""
    key: str = ""
    is_shown: Callable[[Visitor], bool] | None = None
    counter: Counter | None = None
    size: Size | None = None


POLICY_NAMES = ("policy",)
ENTRY_NAMES = ("policy", "uid", "name")

PLACES: Mapping[str, Place] = {
    "home": Place(_("Home"), "layout-dashboard", 0, is_for_users=True),
    "jobs": Place(_("My jobs"), "server-2", 0, is_for_users=True),
    "group": Place(_("My group"), "users-group", 0, is_for_users=True),
    "inbox": Place(_("Inbox"), "message", 0, is_for_users=True),
    "policy": Place(_("Policy"), "list-tree", 1),
    "convergence": Place(_("Convergence"), "chart-line", 1),
    "allocations": Place(_("Allocations"), "calendar", 1),
    "people": Place(_("People"), "id-badge-2", 1),
    "data": Place(_("Data"), "stack-2", 2),
    "schedulers": Place(_("Schedulers"), "server-2", 2),
    "settings": Place(_("Settings"), "adjustments-horizontal", 2),
}
USER_PLACES = tuple(name for name, place in PLACES.items() if place.is_for_users)
ENTRY = "entry"  # place of the tabs of one entry, inside the place of its policy

_OF_THE_CORE: Mapping[str, Tab] = {
    "overview": Tab(place="home", label=_("Home"), pages=("start",), key="o"),
    "my-priority": Tab(
        place="home", label=_("My priority"), pages=("claim-account", "withdraw-claim"), below="overview", key="m"
    ),
    "charges": Tab(
        place="jobs",
        label=_("My jobs"),
        names=POLICY_NAMES,
        pages=("charge",),
        is_shown=attrgetter("is_plain"),
    ),
    "my-group": Tab(
        place="group",
        label=_("My group"),
        keeps_policy=True,
        pages=("group", "group-*"),
        is_shown=attrgetter("has_group"),
    ),
    "inbox": Tab(
        place="inbox",
        label=_("To decide"),
        title=_("Inbox"),
        pages=("request-*",),
        key="i",
        is_shown=attrgetter("has_role"),
        counter=Counter(_("to decide"), UNDECIDED_POLICY_IDS, count_waiting),
    ),
    "policy": Tab(
        place="policy",
        label=_("Tree"),
        title=_("Policy tree"),
        names=POLICY_NAMES,
        pages=("policy-selection", "policy-remove"),
        key="t",
    ),
    "icicle": Tab(place="policy", label=_("Treemap"), names=POLICY_NAMES, is_shown=attrgetter("sees_entries")),
    "edit": Tab(
        place="policy",
        label=_("Editor"),
        names=POLICY_NAMES,
        pages=("draft", "draft-*", "undo-publish"),
        is_shown=attrgetter("edits"),
    ),
    "changes": Tab(
        place="policy", label=_("Changes and history"), names=POLICY_NAMES, pages=("change", "change-*"), key="c"
    ),
    "history": Tab(
        place="policy",
        label=_("History"),
        names=POLICY_NAMES,
        pages=("diff", "undo-revision", "restore-revision"),
        below="changes",
        key="r",
    ),
    "convergence": Tab(
        place="convergence",
        label=_("Convergence"),
        names=POLICY_NAMES,
        key="v",
        is_shown=attrgetter("sees_entries"),
    ),
    "access": Tab(
        place="people",
        label=_("Access"),
        names=POLICY_NAMES,
        pages=("access-*", "grant"),
        is_shown=attrgetter("has_role"),
    ),
    "mappings": Tab(
        place="people",
        label=_("Accounts"),
        names=POLICY_NAMES,
        pages=("mapping-*",),
        is_shown=attrgetter("names_accounts"),
    ),
    "sources": Tab(
        place="data",
        label=_("Sources and quality"),
        pages=("source", "source-*", "import", "import-*", "overlap*"),
        key="s",
        is_shown=attrgetter("has_role"),
    ),
    "upload": Tab(place="data", label=_("Usage upload"), is_shown=attrgetter("actor.is_admin")),
    "algorithm": Tab(place="settings", label=_("Algorithm and operators"), title=_("Algorithm"), names=POLICY_NAMES),
    "decay": Tab(place="settings", label=_("Usage window"), names=POLICY_NAMES),
    "policy-files": Tab(
        place="settings",
        label=_("Policy files"),
        names=POLICY_NAMES,
        pages=("policy-file", "policy-against"),
        is_shown=attrgetter("reads_whole"),
    ),
    "federation": Tab(
        place="settings",
        label=_("Federation"),
        pages=("federation-*",),
        is_shown=attrgetter("federates"),
        counter=Counter(_("Needs attention"), FETCHES, count_alarming, is_alert=True),
    ),
    "audit": Tab(place="settings", label=_("Audit"), key="h", is_shown=attrgetter("has_role")),
    "entry": Tab(place=ENTRY, label=_("Overview"), names=ENTRY_NAMES, pages=("entry-find", "shares")),
    "entry-convergence": Tab(place=ENTRY, label=_("Over time"), names=ENTRY_NAMES),
    "members": Tab(place=ENTRY, label=_("Members"), names=("policy", "uid"), pages=("member-*",)),
    "adjustments": Tab(place=ENTRY, label=_("Adjustments"), names=("policy", "uid")),
    "entry-roles": Tab(place=ENTRY, label=_("Access"), names=("policy", "uid"), is_shown=attrgetter("has_role")),
    "entry-history": Tab(place=ENTRY, label=_("History"), names=("policy", "uid")),
}


@cache
def all_tabs() -> Mapping[str, Tab]:
    """All tabs by the names of their routes, in their order, with those of plug-ins."""
    return with_additions(_OF_THE_CORE, "nav_items")


@cache
def tabs_of(place: str) -> Sequence[tuple[str, Tab]]:
    """Tabs of a place with their routes, without those that belong to another tab."""
    return tuple((route, tab) for route, tab in all_tabs().items() if tab.place == place and not tab.below)


@cache
def keyed_tabs() -> Sequence[tuple[str, Tab]]:
    """Tabs with a shortcut, also those that belong to another tab."""
    return tuple((route, tab) for route, tab in all_tabs().items() if tab.key)


@cache
def counters() -> Mapping[str, Counter]:
    """Counters of the tabs, by their routes."""
    return {route: tab.counter for route, tab in all_tabs().items() if tab.counter is not None}


@lru_cache(maxsize=1_024)
def tab_of(route: str) -> str:
    """Route of the tab to which the page of a route belongs; empty if it belongs to none."""
    declared = all_tabs()
    matching = (name for name, tab in declared.items() if any(fnmatchcase(route, page) for page in tab.pages))
    name = route if route in declared else next(matching, "")
    return (declared[name].below or name) if name else ""
