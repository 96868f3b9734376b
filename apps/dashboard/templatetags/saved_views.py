"""The menu of views above a list."""

from __future__ import annotations

from typing import Any

from django import template

from apps.accounts.saved_views import LONGEST_NAME, list_views
from apps.dashboard.saved_views import WHOLE, kept_query
from apps.dashboard.shell.requests import actor_of

register = template.Library()


@register.inclusion_tag("dashboard/saved_views/_menu.html", takes_context=True)
def saved_views(context: dict[str, Any]) -> dict[str, Any]:
    """{% saved_views %}: open, save and change one's own views of this page's list."""
    request = context["request"]
    query = request.META.get("QUERY_STRING", "")
    try:
        here = kept_query(query)
    except ValueError:  # nothing that could be saved
        here = query
    views = list_views(page=request.path, actor=actor_of(request))
    return {
        "page": request.path,
        "query": here,
        "views": views,
        "current": next((view for view in views if view.query == here), None),
        "whole": WHOLE,
        "longest_name": LONGEST_NAME,
    }
