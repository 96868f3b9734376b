"""The frame around every page: policy switch, navigation, account menu, freshness of the numbers, preferences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from apps.accounts.request_cache import cache_for_request
from apps.core import clock
from apps.core.errors import DomainError
from apps.federation.grid.peers import count_alarming, may_federate
from apps.policies import selectors as policies
from apps.policies.access.scope import holds_a_role
from apps.policies.models import Policy
from apps.policies.requests.group_division import manages_any_group
from apps.policies.requests.inbox import count_waiting
from apps.priorities import selectors as priorities
from apps.web.guides import guide_address
from apps.web.shell import presentation
from apps.web.shell.live_state import FrameRow, LivePage, live_page, read_frame
from apps.web.shell.nav_items import NavItem, NavSection, counters, frame_parts, plugin_items
from apps.web.shell.requests import actor_of

_Part = TypeVar("_Part")
THEME_COOKIE = "theme"
THEMES = ("light", "dark")
KEYS_COOKIE = "keys"  # value "off": no single-key shortcuts (WCAG 2.1.4)
_KEYS = {  # pressed after "g", by route
    **{"overview": "o", "my-priority": "m", "inbox": "i", "sources": "s", "audit": "h"},
    **{"policy": "t", "changes": "c", "convergence": "v", "history": "r"},
}
_Placed = Iterable[tuple[int, "Item"]]  # with positions in a section


@dataclass(frozen=True, slots=True)
class Item:
    """One link of the navigation.

    count: number of open matters for the user; counted: their name, for screen readers. keys: shortcut, such as "g t".
    """

    label: str
    url: str
    icon: str
    current: bool = False
    count: int = 0
    alert: bool = False
    counted: str = ""
    keys: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class PolicyLink:
    id: int
    slug: str
    title: str
    note: str
    url: str
    is_whole: bool = False  # the user sees all of it


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

    @cached_property
    def user(self) -> dict[str, str] | None:
        user = getattr(self._request, "user", None)
        return {"name": str(user)} if user is not None and user.is_authenticated else None

    @cached_property
    def policies(self) -> list[PolicyLink]:
        if not self.user:
            return []
        visible: list[Policy] = _unless_failing(lambda: list(policies.list_policies(actor=self._who["actor"])), [])
        is_admin = self._who["actor"].is_admin
        return [
            PolicyLink(
                policy.pk,
                policy.slug,
                policy.name,
                _("Revision %(n)s") % {"n": policy.head_number},
                reverse("dashboard:policy", kwargs={"policy": policy.slug}),
                is_whole=is_admin or policy.visibility == Policy.Visibility.TREE,
            )
            for policy in visible
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
        user, policy_id = self._who["actor"].user, self.policy.id if self.policy else None
        return read_frame(user_id=user.pk if user else 0, policy_id=policy_id, at=self._who["at"])

    @cached_property
    def _who(self) -> dict[str, Any]:
        """Arguments of every question about the user's rights: one actor and one instant for the whole frame."""
        return {"at": clock.now(), "actor": actor_of(self._request)}

    @cached_property
    def sections(self) -> list[Section]:
        if not self.user:
            return []
        with cache_for_request():  # also for a request that has written
            return self._sections()

    def _sections(self) -> list[Section]:
        if self.is_plain_user:
            return [Section("", self._user_items())]
        inbox = self._item(_("Inbox"), "git-pull-request", "inbox", "request-answer")
        counted = ngettext("pending decision", "pending decisions", self.n_waiting)
        first = [
            (10, self._item(_("Overview"), "layout-dashboard", "overview")),
            (20, self._item(_("My priority"), "user-star", "my-priority")),
            (40, replace(inbox, count=self.n_waiting, counted=counted)),
        ]
        if self.leads:
            first.append((30, self._item(_("My group"), "users-group", "my-group", "group", "group-ask")))
        data = [
            (
                10,
                self._item(
                    _("Usage sources"), "database-import", "sources", "source*", "upload", "import*", "overlap*"
                ),
            ),
            (20, self._item(_("Data quality"), "circle-check", "data-quality")),
            *((30, item) for item in self._accounts()),
            *((40, item) for item in self._federation()),
        ]
        operate = [(20, self._item(_("Audit"), "history", "audit"))]
        return [
            Section("", self._with_plugins(first, NavSection.MAIN)),
            *([Section(_("Policy"), self._of_policy(self.policy))] if self.policy else []),
            Section(_("Data"), self._with_plugins(data, NavSection.DATA)),
            Section(_("Operate"), self._with_plugins(operate, NavSection.OPERATE)),
        ]

    def _with_plugins(self, items: _Placed, section: NavSection) -> list[Item]:
        """Items of the core and those of plug-ins that the user sees, by position."""
        added = [
            (item.position, self._plugin_item(item))
            for item in plugin_items()
            if item.section == section and self._shows(item)
        ]
        return [item for _position, item in sorted([*items, *added], key=itemgetter(0))]

    def _shows(self, item: NavItem) -> bool:
        is_shown = item.is_shown
        return is_shown is None or _unless_failing(lambda: is_shown(**self._who), False)

    def _plugin_item(self, item: NavItem) -> Item:
        policy = {"policy": self.policy.slug} if item.is_of_policy and self.policy else {}
        link = self._item(str(item.label), item.icon, *item.routes, key=item.key, **policy)
        if item.counter is None:
            return link
        return replace(link, count=self.plugin_counts.get(item.routes[0], 0), counted=str(item.counter.counted))

    def _of_policy(self, policy: PolicyLink) -> list[Item]:
        of_tree = ("icicle", "entry", "shares", "member*", "adjustments")
        of_history = ("diff", "undo-revision", "restore-revision", "entry-history")
        pages: list[tuple[str, ...]] = [
            (_("Policy tree"), "list-tree", "policy", *of_tree),
            (_("Changes"), "git-pull-request", "changes", "change*"),
            (_("History"), "git-commit", "history", *of_history),
            (_("Convergence"), "chart-line", "convergence", "entry-convergence"),
            (_("Algorithm"), "adjustments-horizontal", "algorithm", "compare"),
            (_("Usage window"), "history", "decay"),
            (_("Access"), "shield-lock", "access", "access-*", "grant"),
        ]
        if policy.is_whole:
            pages.append((_("Import and export"), "download", "policy-files", "policy-file"))
        items = [(10 * n, self._item(*page, policy=policy.slug)) for n, page in enumerate(pages, 1)]
        return self._with_plugins(items, NavSection.POLICY)

    def _user_items(self) -> list[Item]:
        """Navigation of users without a role."""
        first = [self._item(_("My priority"), "user-star", "my-priority")]
        added = [self._plugin_item(item) for item in plugin_items() if item.is_for_users and self._shows(item)]
        if self.policy is None:
            return [*first, *added]
        policy = self.policy.slug
        jobs = self._item(_("My jobs"), "server-2", "charges", "charge", policy=policy)
        group = self._item(_("My group"), "users-group", "my-group")
        group = replace(group, url=f"{group.url}?policy={policy}")
        tree = self._item(_("Policy tree"), "list-tree", "policy", "icicle", "entry", policy=policy)
        return [*first, jobs, group, tree, *added]

    def _accounts(self) -> list[Item]:
        """Link for users who may see user names somewhere; the page checks permission."""
        if not self.policy or not (self.leads or self._who["actor"].is_admin):
            return []
        return [self._item(_("Accounts"), "user-question", "mappings", "mapping-*", policy=self.policy.slug)]

    def _federation(self) -> list[Item]:
        """Link for administrators and users who may mount, with the number of fetches that need attention."""
        who = self._who
        n = _unless_failing(
            lambda: count_alarming(**who, has_fetches=self._frame.has_fetches) if may_federate(**who) else None, None
        )
        if n is None:
            return []
        item = self._item(_("Federation"), "world-share", "federation", "federation-*")
        return [replace(item, count=n, alert=n > 0, counted=_("Needs attention"))]

    @cached_property
    def is_plain_user(self) -> bool:
        return _unless_failing(lambda: not holds_a_role(**self._who), False)

    @cached_property
    def leads(self) -> bool:
        return _unless_failing(lambda: manages_any_group(**self._who), False)

    @cached_property
    def n_waiting(self) -> int:
        """Number of decisions that wait for the user."""
        return _unless_failing(lambda: count_waiting(**self._who, policy_ids=self._frame.undecided_policy_ids), 0)

    @cached_property
    def plugin_counts(self) -> Mapping[str, int]:
        """Open matters by the route of an item of a plug-in."""
        ids: Mapping[str, Sequence[int]] = _unless_failing(lambda: self._frame.counted_ids, {})
        return {
            route: _unless_failing(partial(counter.count, ids=ids[route], **self._who), 0)
            for route, counter in counters().items()
            if route in ids
        }

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        return frame_parts()

    @cached_property
    def account(self) -> list[Item]:
        return [
            self._item(_("My priority"), "user-star", "my-priority"),
            self._item(_("API tokens"), "key", "tokens", "token-*"),
            self._item(_("Password and sessions"), "lock", "password"),
            self._item(_("Two-factor authentication"), "shield-lock", "second-factor"),
            Item(_("REST reference"), reverse("api:docs"), "columns-3"),
        ]

    @property
    def help(self) -> str:
        """URL of the page's guide; of the first guide if it has none."""
        return guide_address(self._route)

    @cached_property
    def _age(self) -> priorities.Freshness:
        slug = self.policy.slug if self.policy else None
        return priorities.freshness(policy_slug=slug, actor=self._who["actor"])

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
        """Counts of the navigation by URL."""
        items = [item for section in self.sections for item in section.items if item.counted]
        return [{"url": item.url, "count": item.count, "alert": item.alert, "counted": item.counted} for item in items]

    def _item(self, label: str, icon: str, *names: str, key: str = "", **kwargs: str) -> Item:
        """names: route of the page, then patterns of the routes of its sub-pages. kwargs: of its URL."""
        url = reverse(f"dashboard:{names[0]}", kwargs=kwargs)
        key = key or _KEYS.get(names[0], "")
        return Item(label, url, icon, current=_is_one_of(self._route, names), keys=f"g {key}" if key else "")

    @cached_property
    def _route(self) -> str:
        """Name of the page's route; empty for an address without a page."""
        match = self._request.resolver_match
        return str(match.url_name) if match and match.namespace == "dashboard" and match.url_name else ""


@lru_cache(maxsize=1_024)
def _is_one_of(route: str, names: tuple[str, ...]) -> bool:
    """Whether a route has one of these names or matches one of these patterns."""
    return any(fnmatchcase(route, name) for name in names)


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
