"""Search as a page and as the fragment of the palette."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.search.entries import EntryHit, find_by_uid
from apps.contrib.search.pages.catalogue import SearchContext
from apps.contrib.search.pages.groups import LISTED_ALONE, empty_groups, groups_of, recent_refs
from apps.contrib.search.selectors import (
    LONGEST_SEARCH,
    MOST_LISTED_MATCHES,
    MOST_OF_SEARCH_GROUP,
    GroupKind,
    search_everything,
)
from apps.core.errors import DomainError
from apps.priorities.selectors.rows import open_view
from apps.web.shell.requests import actor_of, fragment, private


def page_url(**_kwargs: Any) -> str:
    return reverse("pages:search")


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """`?q=`: a part of a name; `?in=`: one group only; `?policy=`: the policy to list first."""
    context = {**_results(request), "crumbs": [{"label": _("Search")}]}
    return private(render(request, "contrib/search/search.html", context))


@require_safe
@fragment(page_url)
def results(request: HttpRequest) -> HttpResponse:
    """Results for the palette; `?last=`: entries opened last in this browser, as `policy:uid`."""
    return private(render(request, "contrib/search/_results.html", _results(request)))


def _results(request: HttpRequest) -> dict[str, Any]:
    query = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    only = request.GET.get("in", "") if request.GET.get("in", "") in LISTED_ALONE else ""
    here = SearchContext(request)
    if not query:
        groups = empty_groups(_recent(request), here)
    else:
        kind: GroupKind | None = only or None  # type: ignore[assignment]  # one of LISTED_ALONE
        most = MOST_LISTED_MATCHES if only else MOST_OF_SEARCH_GROUP
        result = search_everything(query=query, actor=here.actor, policy_slug=here.slug, only=kind, most=most)
        groups = groups_of(result, here, only=only)
    return {"query": query, "groups": groups, "n_lines": sum(len(group.items) for group in groups)}


def _recent(request: HttpRequest) -> list[EntryHit]:
    """Entries opened last in this browser that still exist and that the actor may see."""
    hits = []
    for slug, uid in recent_refs(request.GET.getlist("last")):
        try:
            hit = find_by_uid(open_view(policy_slug=slug, actor=actor_of(request)), UUID(uid))
        except (DomainError, ValueError):
            continue
        if hit is not None:
            hits.append(hit)
    return hits
