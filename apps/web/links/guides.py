"""Which guide describes each page, and which REST routes return the same numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from django.urls import reverse

from apps.core.plugins import plugins, with_additions

HOME = "index"
# Appendices have names of their own among all pages, so that their folder is no part of an address.
PLACE = re.compile(r"(?:\.\./|appendices/)?(?P<name>[a-z0-9-]+)\.md(?P<anchor>#[^#]+)?")


@dataclass(frozen=True, slots=True)
class Guide:
    """Guide to the pages of one feature.

    pages: their titles. routes: their route names. reads: (text, reference below docs/), the most important first.
    rest: methods and paths below /api/v1/.
    """

    pages: str
    routes: str
    reads: tuple[tuple[str, str], ...]
    rest: tuple[str, ...] = ()


_OF_THE_CORE = (
    Guide("Home", "overview start", (("first steps", "first-steps.md"), ("Slurm recipe", "recipe-slurm.md"))),
    Guide(
        "My priority",
        "my-priority my-card",
        (
            ("how to read it", "user.md#how-to-read-it"),
            ("forecast", "user.md#when-it-gets-better"),
            ("a card in a portal", "portals.md#a-card-in-a-frame"),
        ),
        ("GET me", "GET me/explain"),
    ),
    Guide(
        "My group",
        "my-group group group-ask group-undo",
        (("lead a group", "review.md#lead-a-group"),),
        ("POST policies/{policy}/changesets",),
    ),
    Guide(
        "Inbox",
        "inbox request-answer",
        (("lead a group", "review.md#lead-a-group"),),
        ("GET policies/{policy}/changesets",),
    ),
    Guide(
        "Policy tree, entry",
        "policy policy-selection icicle entry edit entry-find policy-remove",
        (("read the tree", "manager.md#read-the-tree"), ("change a share", "manager.md#change-a-share")),
        ("GET policies/{policy}/tree",),
    ),
    Guide(
        "Draft: tree, bars, treemap",
        "draft draft-paste draft-settings",
        (("drafts", "manager.md#change-more-drafts"), ("dragging", "manager.md#change-shares-by-dragging")),
        ("POST policies/{policy}/changesets",),
    ),
    Guide(
        "Members",
        "members member-rules member-attach",
        (("let people in by rule", "accounts.md#let-people-in-by-rule"),),
        ("POST policies/{policy}/changesets",),
    ),
    Guide(
        "Algorithm",
        "algorithm",
        (("how a policy decides", "policy-settings.md#how-a-policy-decides"), ("algorithms", "algorithms.md")),
        ("GET algorithms", "GET policies/{policy}/compare"),
    ),
    Guide(
        "Usage window",
        "decay",
        (("how usage decays", "policy-settings.md#how-usage-decays"), ("curves", "algorithms.md#decay-functions")),
        ("GET decay-functions",),
    ),
    Guide(
        "Changes and history, review",
        "changes change change-effect change-back-test change-checks change-discussion change-conflicts change-decide"
        " change-undo undo-publish",
        (("review a change", "review.md#review-a-change"), ("after publishing", "review.md#after-publishing")),
        ("GET policies/{policy}/changesets/{change_set}",),
    ),
    Guide(
        "History, *Look back*",
        "history diff undo-revision restore-revision entry-history",
        (("look back", "manager.md#look-back"),),
        ("GET policies/{policy}/revisions",),
    ),
    Guide(
        "Convergence",
        "convergence entry-convergence",
        (("convergence", "convergence.md"),),
        ("GET policies/{policy}/convergence",),
    ),
    Guide(
        "Access",
        "access entry-roles access-assign access-extend grant",
        (("who may do what", "review.md#who-may-do-what"), ("privacy", "privacy.md")),
        ("GET policies/{policy}/grants",),
    ),
    Guide(
        "Policy files",
        "policy-files policy-file policy-against",
        (("from and to files", "policies-as-code.md#import-and-export"),),
        ("GET policies/{policy}/document", "POST policies/{policy}/document/against"),
    ),
    Guide(
        "Accounts",
        "mappings mapping-rule mapping-order mapping-assign mapping-detach mapping-versions mapping-version",
        (("which account counts where", "accounts.md#say-which-account-counts-where"),),
        ("GET policies/{policy}/mappings",),
    ),
    Guide(
        "Adjustments",
        "adjustments",
        (("correct usage", "accounts.md#correct-usage"),),
        ("GET policies/{policy}/adjustments",),
    ),
    Guide(
        "My jobs",
        "charges charge",
        (("the metric", "policy-settings.md#what-counts-the-metric"),),
        ("GET policies/{policy}/charges",),
    ),
    Guide(
        "Sources and quality, *Usage upload*",
        "sources source source-new source-settings source-remove upload import import-undo overlaps overlap-decide",
        (
            ("sources", "sources.md"),
            ("is the data good", "sources.md#is-the-data-good"),
            ("formats", "usage.md"),
            ("counted once", "usage.md#counted-exactly-once"),
        ),
        ("GET usage/sources", "GET usage/quality"),
    ),
    Guide(
        "Federation",
        "federation federation-mount-new federation-mount federation-mount-timeline federation-mount-diff"
        " federation-grid federation-subscription-new federation-subscription federation-subscription-timeline"
        " federation-subscription-without"
        " federation-published federation-key-rotate federation-publication-new federation-feed-new"
        " federation-publication federation-publication-drop federation-feed federation-feed-drop",
        (("federation", "federation.md"),),
        ("GET federation/peers", "GET federation/grid"),
    ),
    Guide("Audit", "audit", (("who did what", "review.md#who-did-what"),), ("GET audit",)),
    Guide(
        "API tokens",
        "tokens token-rotate token-revoke",
        (("REST", "rest.md"), ("in a terminal", "user.md#in-a-terminal")),
        ("GET tokens",),
    ),
    Guide(
        "Password and sessions",
        "password second-factor sign-in second-step password-reset password-reset-confirm",
        (("people and passwords", "operate.md#people-and-passwords"),),
    ),
)


@cache
def guides() -> Sequence[Guide]:
    """Those of the core and of the installed plug-ins, with the routes that plug-ins add to a page of another."""
    added = [plugin.guide_routes() for plugin in plugins()]
    return tuple(
        replace(guide, rest=(*guide.rest, *sorted(route for routes in added for route in routes.get(guide.pages, ()))))
        for guide in with_additions({guide.pages: guide for guide in _OF_THE_CORE}, "guides").values()
    )


@cache
def _by_route() -> dict[str, Guide]:
    return {route: guide for guide in guides() for route in guide.routes.split()}


def guide_of(route: str) -> Guide | None:
    """The guide of a page by its route name, or None."""
    return _by_route().get(route)


@cache
def rest_of(page: str) -> Sequence[str]:
    """REST methods and paths of the pages that a docs page such as `user.md` describes, without duplicates."""
    described = [guide for guide in guides() if any(place.partition("#")[0] == page for _, place in guide.reads)]
    return tuple(dict.fromkeys(route for guide in described for route in guide.rest))


def address_of(place: str) -> str:
    """URL in this site of a reference such as `user.md#how-to-read-it`.

    Raises:
        ValueError: it is no page of docs/.
    """
    match = PLACE.fullmatch(place)
    if match is None:
        raise ValueError(f"{place!r} is no page of docs/")
    name = match["name"]
    page = reverse("pages:help") if name == HOME else reverse("pages:help-page", kwargs={"name": name})
    return page + (match["anchor"] or "")


def guide_address(route: str) -> str:
    """URL of the guide for a page, by its route name; the first guide if it has none or no name."""
    guide = guide_of(route)
    return address_of(guide.reads[0][1] if guide else f"{HOME}.md")
