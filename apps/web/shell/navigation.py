"""The frame around every page: policy switch, navigation, account menu, freshness of the numbers, preferences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.request_cache import cache_for_request
from apps.core import clock
from apps.core.errors import DomainError
from apps.core.plugins import plugins
from apps.core.release import __version__
from apps.policies import selectors as policies
from apps.policies.models import Policy
from apps.priorities import selectors as priorities
from apps.web.links.guides import guide_address
from apps.web.shell import presentation
from apps.web.shell.live_state import FrameRow, LivePage, live_page, read_frame
from apps.web.shell.places import (
    ENTRY,
    PLACES,
    USER_PLACES,
    Tab,
    all_tabs,
    counters,
    keyed_tabs,
    tab_of,
    tabs_of,
)
from apps.web.shell.requests import Visitor, actor_of

_Part = TypeVar("_Part")
THEME_COOKIE = "theme"
THEMES = ("light", "dark")
KEYS_COOKIE = "keys"  # value "off": no single-key shortcuts (WCAG 2.1.4)


@dataclass(frozen=True, slots=True)
class Item:
    """One link of the frame.

    current: "page" if it leads to this page, "true" if this page belongs to it. count: number of open matters for the
    user; counted: their name, for screen readers; key: by which live updates find a link with a count. keys: shortcut,
    such as "g t".
    """

    label: str
    url: str
    icon: str = ""
    current: str = ""
    count: int = 0
    alert: bool = False
    counted: str = ""
    keys: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class TabBar:
    """Tabs of a place or of an entry, whose name is the label."""

    label: str
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class PolicyLink:
    id: int
    slug: str
    title: str
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class InputLine:
    label: str
    value: str
    state: str


@dataclass(frozen=True, slots=True)
class FreshnessChip:
    """State, time, revision and most important problem; the others are in the popover."""

    state: str
    as_of: Any
    revision: int | None
    problem: str
    label: str
    inputs: Sequence[InputLine] = field(default_factory=tuple)
    note: str = ""


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor: the frame, created on first use, so that fragments and the API don't pay for it."""
    return {"shell": SimpleLazyObject(lambda: Shell(request))}


def current_policy_slug(request: HttpRequest) -> str | None:
    """The policy of a page: from its URL, else from `?policy=`, else the first visible one."""
    match = request.resolver_match
    if match and "policy" in match.kwargs:
        return str(match.kwargs["policy"])
    requested = request.GET.get("policy")
    visible = policies.list_policies(actor=actor_of(request))
    slugs = [policy.slug for policy in visible]
    return requested if requested in slugs else next(iter(slugs), None)


class Shell:
    """Data of the frame, each part loaded on first use.

    Failures leave parts empty, because error pages have a frame too.
    """

    version = __version__

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def theme(self) -> str:
        chosen = self._request.COOKIES.get(THEME_COOKIE, "")
        return chosen if chosen in THEMES else ""

    @cached_property
    def keys(self) -> str:
        """Whether single-key shortcuts are on in this browser."""
        return "off" if self._request.COOKIES.get(KEYS_COOKIE) == "off" else "on"

    @property
    def language(self) -> str:
        return get_language() or "en"

    @property
    def site(self) -> str:
        return str(settings.FAIRSHARE_SITE)

    @property
    def zone(self) -> str:
        """Zone of all times on pages."""
        return str(settings.TIME_ZONE)

    @cached_property
    def user(self) -> dict[str, str] | None:
        user = getattr(self._request, "user", None)
        return {"name": str(user)} if user is not None and user.is_authenticated else None

    @cached_property
    def _actor(self) -> Actor:
        return actor_of(self._request)

    @cached_property
    def _visible(self) -> list[Policy]:
        if not self.user:
            return []
        try:
            return list(policies.list_policies(actor=self._actor))
        except (DomainError, DatabaseError):
            return []

    @cached_property
    def policies(self) -> list[PolicyLink]:
        return [
            PolicyLink(
                policy.pk,
                policy.slug,
                policy.name,
                _("Revision %(n)s") % {"n": policy.head_number},
                reverse("pages:policy", kwargs={"policy": policy.slug}),
            )
            for policy in self._visible
        ]

    @cached_property
    def policy(self) -> PolicyLink | None:
        match = self._request.resolver_match
        slug = str(match.kwargs.get("policy", "")) if match else ""
        slug = slug or str(getattr(self._request, "policy_slug", ""))  # an address of something that has a policy
        slug = slug or self._request.GET.get("policy", "")
        named = next((policy for policy in self.policies if policy.slug == slug), None)
        return named or next(iter(self.policies), None)

    @cached_property
    def _frame(self) -> FrameRow:
        """Raises DatabaseError."""
        user, policy_id = self._actor.user, self.policy.id if self.policy else None
        return read_frame(user_id=user.pk if user else 0, policy_id=policy_id, at=self.visitor.at)

    @cached_property
    def visitor(self) -> Visitor:
        """One actor and one instant for all questions about rights in the frame."""
        policy = self._visible[self.policies.index(self.policy)] if self.policy else None
        return Visitor(at=clock.now(), actor=self._actor, policy=policy)

    @cached_property
    def _names(self) -> Mapping[str, Any]:
        """Parts of addresses: policy, and on the page of an entry its uid and name."""
        policy = {"policy": self.policy.slug} if self.policy else {}
        return {**policy, **getattr(self._request, "shown_entry", {})}

    def _routes_of(self, places: Iterable[str]) -> dict[str, list[str]]:
        """Routes of the tabs that the visitor is shown, by place; without a place that has none."""
        shown: dict[str, list[str]] = {}
        if not self.user:
            return shown
        with cache_for_request():  # also for a request that has written
            for name in places:
                for route, tab in tabs_of(name):
                    if tab.names and tab.names[-1] not in self._names:
                        continue
                    try:
                        is_shown = tab.is_shown is None or tab.is_shown(self.visitor)
                    except (DomainError, DatabaseError):
                        continue
                    if is_shown:
                        shown.setdefault(name, []).append(route)
        return shown

    @cached_property
    def _shown(self) -> Mapping[str, Sequence[str]]:
        """Routes by place, of the rows of the navigation and of the place of this page."""
        rows = USER_PLACES if self.is_plain_user else tuple(PLACES)
        here = self._place_of_page
        return self._routes_of(rows if here in rows or not here else (*rows, here))

    @cached_property
    def _place_of_page(self) -> str:
        tab = all_tabs().get(tab_of(self._route))
        if tab is None:
            return ""
        return tab.place if tab.place in PLACES else "policy"

    @cached_property
    def places(self) -> list[list[Item]]:
        """The rows of the navigation in its groups."""
        groups: dict[int, list[Item]] = {}
        for name, routes in self._shown.items():
            if PLACES[name].is_for_users or not self.is_plain_user:
                groups.setdefault(PLACES[name].group, []).append(self._place(name, routes))
        return list(groups.values())

    def _place(self, name: str, routes: Sequence[str]) -> Item:
        link, here = self._item(routes[0]), name == self._place_of_page
        counted, alert = {}, False
        for route in routes:
            if route in counters() and (n := self.open_matters.get(route, 0)):
                counted[f"{n} {counters()[route].counted}"] = n
                alert = alert or counters()[route].is_alert
        return replace(
            link,
            label=str(PLACES[name].label),
            icon=PLACES[name].icon,
            current=link.current or ("true" if here else ""),
            count=sum(counted.values()),
            alert=alert,
            counted=", ".join(counted),
            key=name,
        )

    @cached_property
    def tabs(self) -> TabBar | None:
        """Tabs of the place of this page, or of its entry; None if there are less than two."""
        if "uid" in self._names:
            label, routes = str(self._names["title"]), self._routes_of([ENTRY])[ENTRY]
        else:
            routes = list(self._shown.get(self._place_of_page, ()))
            label = str(PLACES[self._place_of_page].label) if routes else ""
        if len(routes) < 2:
            return None
        return TabBar(label, [self._sized(replace(self._item(route), keys=""), route) for route in routes])

    def _sized(self, item: Item, route: str) -> Item:
        """The link of a tab beside the others, with the size of its page. The navigation has the keys."""
        size = all_tabs()[route].size
        n = _unless_failing(lambda: size.count(self.visitor), 0) if size else 0
        return replace(item, count=n, counted=str(size.counted)) if size and n else item

    @property
    def views(self) -> list[Item]:
        """The page of the current tab, and those that belong to it and have names of their own."""
        tab = tab_of(self._route)
        routes = [route for route, each in all_tabs().items() if tab and tab in (route, each.below)]
        return [
            self._titled(route)
            for route in routes
            if (not all_tabs()[route].names or all_tabs()[route].names[-1] in self._names)
            and self._may_read(all_tabs()[route])
        ]

    def _may_read(self, tab: Tab) -> bool:
        return not tab.below or tab.is_shown is None or tab.is_shown(self.visitor)

    def trail(self, crumbs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Breadcrumbs of a page, without what its tab says, and without tabs that the visitor isn't shown."""
        if not crumbs or self._route not in all_tabs():
            return crumbs
        if self.tabs is None and len(crumbs) == 1:
            return crumbs
        if self.tabs is None:
            here = self._place_of_page
            shown = self._shown.get(here, ())
            hidden = {str(tab.title or tab.label) for route, tab in tabs_of(here) if route not in shown}
            return [*(crumb for crumb in crumbs[:-1] if crumb["label"] not in hidden), crumbs[-1]]
        if "uid" in self._names:
            title = str(self._names["title"])
            return crumbs if crumbs[-1]["label"] == title else [*crumbs[:-2], {"label": title}]
        names = {str(tab.title or tab.label) for tab in all_tabs().values()}
        policy = self.policy.title if self.policy else None
        above = [crumb for crumb in crumbs[:-1] if crumb["label"] == policy or crumb["label"] not in names]
        return [*above, {"label": self.tabs.label}]

    @property
    def pages(self) -> list[tuple[str, Item]]:
        """Every tab that the visitor is shown: the label of its place, and its link under its full name."""
        return [
            (str(PLACES[name].label), replace(self._titled(route), icon=PLACES[name].icon))
            for name, routes in self._routes_of(PLACES).items()
            for route in routes
        ]

    @cached_property
    def shortcuts(self) -> list[Item]:
        """Links of keys for pages that aren't the first of a place."""
        home_of = {}
        for routes in self._shown.values():
            for route in routes:
                home_of[route] = routes[0]
        items = []
        for route, tab in keyed_tabs():
            if (tab.below or route) in home_of and home_of.get(route) != route:
                items.append(self._titled(route))
        return items

    def _titled(self, route: str) -> Item:
        """Link of a tab under its full name."""
        tab = all_tabs()[route]
        return replace(self._item(route), label=str(tab.title or tab.label))

    @cached_property
    def is_plain_user(self) -> bool:
        try:
            return self.visitor.is_plain
        except (DomainError, DatabaseError):
            return False

    @property
    def leads(self) -> bool:
        return _unless_failing(lambda: self.visitor.leads, False)

    @cached_property
    def open_matters(self) -> Mapping[str, int]:
        """Open matters by the route of their tab."""
        shown = set().union(*self._shown.values())
        matters = {}
        for route, counter in counters().items():
            if route in shown:
                try:
                    ids = self._frame.counted_ids[route]
                    matters[route] = counter.count(ids=ids, at=self.visitor.at, actor=self._actor)
                except (DomainError, DatabaseError):
                    continue
        return matters

    @cached_property
    def parts(self) -> Mapping[str, Sequence[str]]:
        return frame_parts()

    @cached_property
    def account(self) -> list[Item]:
        pages = [
            (_("My priority"), "user-star", "my-priority"),
            (_("API tokens"), "key", "tokens"),
            (_("Password and sessions"), "lock", "password"),
            (_("Two-factor authentication"), "shield-lock", "second-factor"),
        ]
        own = [Item(label, reverse(f"pages:{route}"), icon) for label, icon, route in pages]
        return [*own, Item(_("REST reference"), reverse("api:docs"), "columns-3")]

    @property
    def help(self) -> str:
        """URL of the page's guide; of the first guide if it has none."""
        return guide_address(self._route)

    @cached_property
    def _age(self) -> priorities.Freshness:
        slug = self.policy.slug if self.policy else None
        return priorities.freshness(policy_slug=slug, actor=self._actor)

    @cached_property
    def freshness(self) -> FreshnessChip | None:
        if not self.user or not self.policy:
            return None
        return _unless_failing(lambda: chip(self._age), None)

    @cached_property
    def live(self) -> LivePage | None:
        """State of the page for live updates; None without a policy."""
        if not self.user or not self.policy:
            return None
        slug = self.policy.slug
        return _unless_failing(lambda: live_page(self._request, slug, self._frame, self._age), None)

    @property
    def counts(self) -> list[dict[str, Any]]:
        """Counts of the places and of their tabs, by the key of their links."""
        tabs = [self._item(route) for route in counters() if any(route in routes for routes in self._shown.values())]
        counted = {all_tabs()[route].place for route in counters()}
        links = [item for group in self.places for item in group if item.key in counted]
        return [
            {"key": item.key, "count": item.count, "alert": item.alert, "counted": item.counted}
            for item in [*links, *tabs]
        ]

    def _item(self, route: str) -> Item:
        """Link of a tab."""
        tab, counter, names = all_tabs()[route], counters().get(route), {}
        for name in tab.names:
            names[name] = self._names[name]
        url = reverse(f"pages:{route}", kwargs=names)
        if tab.keeps_policy and self.policy:
            url = f"{url}?policy={self.policy.slug}"
        count = self.open_matters.get(route, 0) if counter else 0
        below = "true" if route == tab_of(self._route) else ""
        return Item(
            str(tab.label),
            url,
            current="page" if route == self._route else below,
            count=count,
            alert=bool(count and counter and counter.is_alert),
            counted=str(counter.counted) if counter else "",
            keys=f"g {tab.key}" if tab.key else "",
            key=f"tab-{route}" if counter else "",
        )

    @cached_property
    def _route(self) -> str:
        """Name of the page's route; empty for an address without a page."""
        match = self._request.resolver_match
        return str(match.url_name) if match and match.namespace == "pages" and match.url_name else ""


@cache
def frame_parts() -> Mapping[str, Sequence[str]]:
    """Templates of the installed plug-ins by the part of the frame that shows them: topbar or end."""
    parts: dict[str, list[str]] = {"topbar": [], "end": []}
    for plugin in plugins():
        for name, template in plugin.frame_parts().items():
            parts[name].append(template)
    return parts


def _unless_failing(load: Callable[[], _Part], empty: _Part) -> _Part:
    """A part of the frame; `empty` if the database fails or refuses it."""
    try:
        return load()
    except (DomainError, DatabaseError):
        return empty


def chip(fresh: priorities.Freshness) -> FreshnessChip:
    """Freshness as text."""
    problems = [text for key, text in zip(fresh.keys, fresh.problems, strict=True) if key != "nothing_computed"]
    label = _("Age of the numbers")
    lines = [
        InputLine(
            line.label,
            presentation.age(line.age_s) if line.age_s is not None else _("nothing computed yet"),
            line.state,
        )
        for line in fresh.inputs
    ]
    more = len(problems) - 1
    note = _("and %(n)s more") % {"n": more} if more > 0 else ""
    return FreshnessChip(fresh.state, fresh.as_of, fresh.revision, "".join(problems[:1]), label, lines, note)
