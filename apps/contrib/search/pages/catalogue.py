"""Pages, settings, actions and guides that search finds, each with its permission and its keyboard shortcut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.actor import Actor
from apps.core import clock
from apps.federation.grid.peers import may_federate
from apps.pages.help.documents import contents
from apps.policies.access.managers import manages, manages_any
from apps.policies.access.role_holders import may_grant
from apps.policies.changesets.drafts import may_edit
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.web.links.guides import address_of
from apps.web.shell.navigation import Shell
from apps.web.shell.requests import actor_of

_SETTINGS = (  # with the routes of their pages, the first of which may be one of a plug-in
    (gettext_lazy("Half-life and usage window"), ("decay",), "history"),
    (gettext_lazy("Algorithm and weights"), ("algorithm",), "adjustments-horizontal"),
    (gettext_lazy("Tolerance"), ("algorithm",), "adjustments-horizontal"),
    (gettext_lazy("Operator"), ("algorithm",), "chart-line"),
)
MANAGERS = gettext_lazy("decided by managers of the policy")
_ADMINISTRATORS = gettext_lazy("decided by administrators")


@dataclass(frozen=True, slots=True)
class Choice:
    """One search result. press: action in the browser. words: others by which it is found, besides its title."""

    icon: str
    title: str
    note: str = ""
    url: str = ""
    keys: str = ""
    ref: str = ""
    press: str = ""
    is_denied: bool = False
    words: str = ""


class _Menu(Shell):
    """The navigation without its counts, whose queries cost more than the search itself."""

    @cached_property
    def open_matters(self) -> Mapping[str, int]:
        return {}


class SearchContext:
    """The actor of a search and the policy that it is about."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.shell = _Menu(request)

    @cached_property
    def actor(self) -> Actor:
        return actor_of(self.request)

    @cached_property
    def policy(self) -> Policy | None:
        link = self.shell.policy
        return get_policy(slug=link.slug, actor=self.actor) if link else None

    @cached_property
    def view(self) -> PolicyView:
        """The policy as the actor sees it; only with a `policy`."""
        return open_view(policy_slug=self.slug, actor=self.actor)

    @cached_property
    def edits(self) -> bool:
        return self.policy is not None and may_edit(self.policy, self.actor, clock.now())

    @property
    def slug(self) -> str:
        return self.policy.slug if self.policy else ""


def pages(context: SearchContext) -> Iterator[Choice]:
    """Pages of the places, and of the account menu."""
    for place, item in context.shell.pages:
        yield Choice(item.icon, item.label, "" if place == item.label else place, item.url, keys=item.keys)
    for item in context.shell.account:
        if item.url != reverse("pages:my-priority"):
            yield Choice(item.icon, item.label, _("Your account"), item.url)


def guides(context: SearchContext) -> Iterator[Choice]:
    """Pages of docs/, which every user may read."""
    for part in contents():
        for name, title in part.documents:
            yield Choice("help", title, part.title, address_of(f"{name}.md"))


def settings(context: SearchContext) -> Iterator[Choice]:
    """Settings of the policy: links to the pages that show them and let managers change them."""
    if context.policy is None:
        return
    for title, routes, icon in _SETTINGS:
        yield Choice(icon, str(title), context.policy.name, _first_url(routes, policy=context.slug))


def _first_url(routes: Sequence[str], **names: str) -> str:
    """URL of the first route that an installed app has. Raises NoReverseMatch if none has."""
    *optional, last = routes
    for route in optional:
        with suppress(NoReverseMatch):
            return reverse(f"pages:{route}", kwargs=names)
    return reverse(f"pages:{last}", kwargs=names)


@dataclass(frozen=True, slots=True)
class Action:
    """An action that search offers.

    is_of_policy: its URL needs a policy. decides: the role that may do it, shown to users who may not. words: others
    by which it is found, besides its title.
    """

    title: str | Promise
    name: str
    icon: str
    may: Callable[[SearchContext], bool]
    decides: str | Promise = ""
    is_of_policy: bool = False
    query: str = ""
    words: str | Promise = ""


def _is_anyone(context: SearchContext) -> bool:
    return True


def _may_grant(context: SearchContext) -> bool:
    return bool(context.slug) and may_grant(policy_slug=context.slug, at=clock.now(), actor=context.actor)


def _may_federate(context: SearchContext) -> bool:
    return may_federate(at=clock.now(), actor=context.actor)


def _is_admin(context: SearchContext) -> bool:
    return context.actor.is_admin


def _edits(context: SearchContext) -> bool:
    return context.edits


def _manages(context: SearchContext) -> bool:
    return manages_any(at=clock.now(), actor=context.actor)


def _manages_policy(context: SearchContext) -> bool:
    return context.policy is not None and manages(context.policy, context.actor, clock.now())


_ACTIONS = (
    Action(
        gettext_lazy("Change shares"),
        "edit",
        "pencil",
        _edits,
        MANAGERS,
        True,
        words=gettext_lazy("edit publish draft fix raise lower target"),
    ),
    Action(
        gettext_lazy("Allocate core-hours"),
        "allocations",
        "calendar",
        _edits,
        MANAGERS,
        True,
        words=gettext_lazy("grant reserve allocation budget give"),
    ),
    Action(
        gettext_lazy("Connect a scheduler"),
        "scheduler-new",
        "plug-connected",
        _manages,
        MANAGERS,
        words=gettext_lazy("agent slurm htcondor gridengine cluster add"),
    ),
    Action(
        gettext_lazy("Try a change in the lab"),
        "lab-new",
        "flask",
        _manages_policy,
        MANAGERS,
        True,
        words=gettext_lazy("experiment simulate simulation what if"),
    ),
    Action(gettext_lazy("Give access"), "access-assign", "shield-lock", _may_grant, MANAGERS, True),
    Action(gettext_lazy("Import a usage file"), "upload", "database-import", _is_admin, _ADMINISTRATORS),
    Action(gettext_lazy("Add a usage source"), "source-new", "plus", _is_admin, _ADMINISTRATORS, query="?kind=push"),
    Action(gettext_lazy("Mount a policy"), "federation-mount-new", "world-share", _may_federate, MANAGERS),
    Action(gettext_lazy("Compare algorithms"), "algorithm", "adjustments-horizontal", _is_anyone, is_of_policy=True),
    Action(gettext_lazy("Create an API token"), "tokens", "key", _is_anyone),
    Action(gettext_lazy("Choose which notices come by mail"), "notice-mail", "bell", _is_anyone),
)


def actions(context: SearchContext) -> Iterator[Choice]:
    """Links to the form of each action; actions that the actor may not do are denied and name the role that may."""
    for action in _ACTIONS:
        if action.is_of_policy and context.policy is None:
            continue
        if not action.may(context):
            yield Choice("lock", str(action.title), str(action.decides), is_denied=True, words=str(action.words))
            continue
        try:
            url = reverse(f"pages:{action.name}", kwargs={"policy": context.slug} if action.is_of_policy else {})
        except NoReverseMatch:  # of a plug-in that is left out
            continue
        note = context.policy.name if action.is_of_policy and context.policy else ""
        yield Choice(action.icon, str(action.title), note, url + action.query, words=str(action.words))
    dark = context.shell.theme != "dark"
    title = _("Switch to the dark theme") if dark else _("Switch to the light theme")
    yield Choice("moon" if dark else "sun", title, _("this browser"), press="theme")


def alternatives(context: SearchContext) -> Iterator[Choice]:
    """What the actor can do instead of an action that they may not do."""
    if context.shell.leads:
        yield Choice("users-group", _("My group"), _("ask for a larger share"), reverse("pages:my-group"))
    yield Choice("user-star", _("My priority"), _("why, and what would change it"), reverse("pages:my-priority"))
