"""Links and cards that plug-ins add to pages of the core."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import template
from django.urls import reverse

from apps.core.plugins import EntryCard, PageLink, ReviewCard, keyed, with_additions

register = template.Library()


class ShownLink(NamedTuple):
    url: str
    link: PageLink


class ShownCard(NamedTuple):
    url: str
    card: EntryCard


class ShownReviewCard(NamedTuple):
    url: str
    card: ReviewCard


@register.simple_tag
def page_links(place: str, page: Any = None, **names: Any) -> list[ShownLink]:
    """{% page_links "entry.head" page policy=policy uid=uid as links %}: those that plug-ins have at a place.

    page: the record of the page, by which they decide whether they are shown. names: parts of their addresses.
    """
    none: dict[str, PageLink] = {}
    return [
        ShownLink(reverse(f"dashboard:{route}", kwargs=names), link)
        for route, link in with_additions(none, "page_links").items()
        if link.place == place and link.is_shown(page)
    ]


@register.simple_tag
def entry_cards(**names: Any) -> list[ShownCard]:
    """{% entry_cards policy=policy uid=uid as cards %}: cards of plug-ins on the page of an entry."""
    return [
        ShownCard(reverse(f"dashboard:{route}", kwargs=names), card) for route, card in keyed("entry_cards").items()
    ]


@register.simple_tag
def review_cards(page: Any) -> list[ShownReviewCard]:
    """{% review_cards page as cards %}: cards of plug-ins on a review, of which `page` is the record."""
    names = {"change_set": page.review.change_set.pk}
    return [
        ShownReviewCard(reverse(f"dashboard:{route}", kwargs=names), card)
        for route, card in keyed("review_cards").items()
        if card.is_shown(page)
    ]
