"""Template tags for menus: own drafts, saved views, and marked matches of a search."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html

from apps.accounts.saved_views import LONGEST_NAME, list_views
from apps.core import clock
from apps.dashboard.drafts.views import revision_to_undo
from apps.dashboard.saved_views import WHOLE, stored_query
from apps.dashboard.shell import presentation
from apps.dashboard.shell.requests import actor_of
from apps.policies.changesets import drafts
from apps.policies.selectors import get_policy

register = template.Library()
# --- Drafts -----------------------------------------------------------------------------------------------------------
_SHOWN = 5


@register.inclusion_tag("dashboard/drafts/_mine.html", takes_context=True)
def my_drafts(context: dict[str, Any], policy_slug: str) -> dict[str, Any]:
    """{% my_drafts page.policy_slug %}: Edit button and the actor's open drafts; empty without permission to edit."""
    actor, at = actor_of(context["request"]), clock.now()
    policy = get_policy(slug=policy_slug, actor=actor)
    may_edit = drafts.may_edit(policy, actor, at)
    mine = drafts.list_drafts(policy=policy, at=at, actor=actor) if may_edit else []
    shown = [{"draft": each, "title": presentation.title_of(each), "n": len(each.operations)} for each in mine[:_SHOWN]]
    undoes = revision_to_undo(policy, actor.user.pk if actor.user else None, at=at) if may_edit else None
    return {"policy_slug": policy_slug, "may_edit": may_edit, "drafts": shown, "n_drafts": len(mine), "undoes": undoes}


# --- Saved views ------------------------------------------------------------------------------------------------------
@register.inclusion_tag("dashboard/saved_views/_menu.html", takes_context=True)
def saved_views(context: dict[str, Any], page: str = "") -> dict[str, Any]:
    """{% saved_views %}: menu to open, save and change the actor's saved views of this list or the one at `page`."""
    request = context["request"]
    query = request.META.get("QUERY_STRING", "")
    try:
        here = stored_query(query)
    except ValueError:  # this query can't be saved
        here = query
    page = page or request.path
    views = list_views(page=page, actor=actor_of(request))
    return {
        "page": page,
        "query": here,
        "views": views,
        "current": next((view for view in views if view.query == here), None),
        "whole": WHOLE,
        "longest_name": LONGEST_NAME,
    }


# --- Search -----------------------------------------------------------------------------------------------------------
@register.filter
def marked(text: str, query: str) -> str:
    """{{ item.title|marked:query }}: the first match of the query in <mark>."""
    at = text.lower().find(query.lower()) if query else -1
    if at < 0 or len(text.lower()) != len(text):
        return text
    end = at + len(query)
    return format_html("{}<mark>{}</mark>{}", text[:at], text[at:end], text[end:])
