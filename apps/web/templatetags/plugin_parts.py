"""Links and cards that plug-ins add to pages of the core."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django import template
from django.urls import reverse

from apps.core import clock
from apps.core.plugins import EntryCard, PageLink, PluginConfig, ReviewCard, keyed, plugins, with_additions
from apps.web.shell.requests import actor_of
from apps.web.texts.rank_use import rank_use_of

register = template.Library()


class ShownLink(NamedTuple):
    url: str
    link: PageLink


class ShownCard(NamedTuple):
    url: str
    card: EntryCard


class ShownJobCard(NamedTuple):
    url: str
    card: EntryCard
    n_rows: int


class ShownReviewCard(NamedTuple):
    url: str
    card: ReviewCard


@register.simple_tag
def page_links(place: str, page: Any = None, **names: Any) -> list[ShownLink]:
    """{% page_links "entry.shares" page policy=policy uid=uid as links %}: those that plug-ins have at a place.

    page: the record of the page, by which they decide whether they are shown. names: parts of their addresses.
    """
    return [
        ShownLink(reverse(f"pages:{route}", kwargs=names), link)
        for route, link in _links_of(plugins())
        if link.place == place and link.is_shown(page)
    ]


@cache
def _links_of(_plugins: tuple[PluginConfig, ...]) -> tuple[tuple[str, PageLink], ...]:
    """Links of all places by their routes. Cached, as the editor asks with each edit."""
    none: dict[str, PageLink] = {}
    return tuple(with_additions(none, "page_links").items())


@register.simple_tag
def entry_cards(**names: Any) -> list[ShownCard]:
    """{% entry_cards policy=policy uid=uid as cards %}: cards of plug-ins on the page of an entry."""
    return [ShownCard(reverse(f"pages:{route}", kwargs=names), card) for route, card in keyed("entry_cards").items()]


@register.simple_tag(takes_context=True)
def job_cards(context: Mapping[str, Any], policy: str) -> list[ShownJobCard]:
    """{% job_cards policy as cards %}: cards of plug-ins on *My jobs*."""
    query, actor, at = urlencode({"policy": policy}), actor_of(context["request"]), clock.now()
    return [
        ShownJobCard(f"{reverse(f'pages:{route}')}?{query}", card, card.n_rows(policy_slug=policy, actor=actor, at=at))
        for route, card in keyed("job_cards").items()
    ]


@register.simple_tag
def review_cards(page: Any) -> list[ShownReviewCard]:
    """{% review_cards page as cards %}: cards of plug-ins on a review, of which `page` is the record."""
    names = {"change_set": page.review.change_set.pk}
    return [
        ShownReviewCard(reverse(f"pages:{route}", kwargs=names), card)
        for route, card in keyed("review_cards").items()
        if card.is_shown(page)
    ]


@register.inclusion_tag("web/_rank_use.html")
def rank_use(policy: str, uid: UUID | None = None) -> dict[str, Any]:
    """{% rank_use policy %} or {% rank_use policy uid %}: beside ranks that a scheduler doesn't use."""
    return {"messages": rank_use_of(policy, uid)}
