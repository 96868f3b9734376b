"""Shares of one group of a draft by dragging: the page, what changes on it after an edit, and the prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.analytics.forecast.draft_group import get_draft_group, get_group_forecast
from apps.core.errors import Invalid
from apps.dashboard.drafts import group as drawn
from apps.dashboard.drafts import pages
from apps.dashboard.drafts import words as draft_words
from apps.dashboard.drafts.forms import message_of, read_operation
from apps.dashboard.drafts.pages import Asked, draft_url
from apps.dashboard.shell import lines
from apps.dashboard.shell.htmx import fragment
from apps.policies.models import ChangeSet
from apps.policies.tree.columns import Node
from apps.priorities.selectors.changesets.draft import DraftView


def page_url(change_set: int, **_kwargs: Any) -> str:
    return draft_url(change_set, "group=")


@require_safe
def shares(request: HttpRequest, change_set: int) -> HttpResponse:
    """Children of `group`, or of the parent of `entry`, or of the root; the fields work without a script."""
    view, asked = pages.open_view(request, change_set), Asked.of(request.GET)
    parent = _parent(view, asked)
    asked = _in_group(asked, parent)
    context = _context(view, asked, parent) | {
        "asked": asked,
        "picked_uid": asked.entry,
        "way": view.tree.lineage(parent)[:-1],
        "words": drawn.words(),
        "crumbs": [
            {"label": view.policy.name, "url": reverse("dashboard:policy", kwargs={"policy": view.policy.slug})},
            {"label": draft_words.title_of(view.draft), "url": draft_url(change_set)},
            {"label": _("Shares of %(name)s") % {"name": parent.name}},
        ],
    }
    return render(request, "dashboard/drafts/shares.html", context)


@require_safe
@fragment(page_url)
def group(request: HttpRequest, change_set: int) -> HttpResponse:
    """What the page shows of the draft as it is now: asked for after a refusal."""
    return group_parts(request, pages.open_view(request, change_set), Asked.of(request.GET))


def group_parts(request: HttpRequest, view: DraftView, asked: Asked, *, said: str = "") -> HttpResponse:
    """The bar of the draft, its edits, and the numbers of the group."""
    parent = _parent(view, asked)
    context = _context(view, _in_group(asked, parent), parent) | {"said": said}
    response = render(request, "dashboard/drafts/_group.html", context)
    response["ETag"] = f'"{view.draft.version}"'
    return response


@require_safe
@fragment(page_url)
def outlook(request: HttpRequest, change_set: int) -> HttpResponse:
    """When each child is on target at present demand; with an operation in the address, as if it were in the draft."""
    asked = Asked.of(request.GET)
    try:
        more = [read_operation(request.GET)] if "op" in request.GET else []
        view = pages.open_view(request, change_set, more=more)
    except Invalid as error:
        return JsonResponse({"problem": message_of(error), "code": error.code}, status=422)
    found = get_group_forecast(view, get_draft_group(view, _parent(view, asked)))
    return JsonResponse(drawn.outlook_json(found, with_lines="lines" in request.GET))


def _context(view: DraftView, asked: Asked, parent: Node) -> dict[str, Any]:
    found = get_draft_group(view, parent)
    tolerance = lines.tolerance_of(view.outcome.settings)
    is_open = view.draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    return {
        **pages.bar_context(view),
        **pages.panel_context(view, replace(asked, entry=None)),
        "in_group": True,
        "parent": parent,
        "group": found,
        "lines": drawn.group_lines(found, tolerance, is_open=is_open),
        "segments": drawn.segments(found, tolerance),
        "bar_width": drawn.BAR_WIDTH,
        "has_small": drawn.has_small(found),
        "numbers": drawn.group_json(found, tolerance, is_open=is_open),
        "neighbours": pages.neighbours(view),
        "tolerance": tolerance,
    }


def _parent(view: DraftView, asked: Asked) -> Node:
    if asked.group is not None:
        return view.require(asked.group)
    entry = view.require(asked.entry) if asked.entry is not None else None
    return view.tree.root if entry is None or entry.parent_uid is None else view.require(entry.parent_uid)


def _in_group(asked: Asked, parent: Node) -> Asked:
    """Forms of this page lead back to it."""
    return replace(asked, group=parent.uid, back=f"group={parent.uid}")
