"""Page to edit the shares of one group of a draft by dragging a bar, and its fragments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.plugins import plugins
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts.group_presenters import group_json, group_lines, has_small, words
from apps.pages.changes.drafts.pages import EditorState
from apps.policies.models import ChangeSet
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import DraftView
from apps.priorities.selectors.draft_group import get_draft_group
from apps.web.links import draft_url
from apps.web.shell import lines, presentation
from apps.web.shell.requests import fragment


def outlook_url(change_set: int) -> str:
    """Address of the prediction that a plug-in makes while shares are dragged; "" without one."""
    return next((url for plugin in plugins() if (url := plugin.draft_outlook_url(change_set))), "")


def page_url(change_set: int, **_kwargs: Any) -> str:
    return draft_url(change_set, "group=")


@require_safe
def shares(request: HttpRequest, change_set: int) -> HttpResponse:
    """Shares of the children of `group`, of the parent of `entry`, or of the root."""
    view, editor = pages.open_view(request, change_set), EditorState.of(request.GET)
    parent = parent_of(view, editor)
    editor = _in_group(editor, parent)
    context = _context(view, editor, parent) | {
        "editor": editor,
        "picked_uid": editor.entry,
        "way": view.tree.lineage(parent)[:-1],
        "words": words(),
        "outlook_url": outlook_url(change_set),
        "crumbs": [
            {"label": view.policy.name, "url": reverse("dashboard:policy", kwargs={"policy": view.policy.slug})},
            {"label": presentation.title_of(view.draft), "url": draft_url(change_set)},
            {"label": _("Shares of %(name)s") % {"name": parent.name}},
        ],
    }
    return render(request, "pages/changes/drafts/shares.html", context)


@require_safe
@fragment(page_url)
def group(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the current state of the group, which the script fetches after a refusal."""
    return group_parts(request, pages.open_view(request, change_set), EditorState.of(request.GET))


def group_parts(request: HttpRequest, view: DraftView, editor: EditorState, *, announcement: str = "") -> HttpResponse:
    """Fragments with the draft's bar, its edits, and the numbers of the group."""
    parent = parent_of(view, editor)
    context = _context(view, _in_group(editor, parent), parent) | {"announcement": announcement}
    response = render(request, "pages/changes/drafts/_group.html", context)
    response["ETag"] = f'"{view.draft.version}"'
    return response


def _context(view: DraftView, editor: EditorState, parent: Node) -> dict[str, Any]:
    draft_group = get_draft_group(view, parent)
    tolerance = lines.tolerance_of(view.outcome.settings)
    is_open = view.draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    return {
        **pages.bar_context(view),
        **pages.panel_context(view, replace(editor, entry=None)),
        "in_group": True,
        "parent": parent,
        "group": draft_group,
        "lines": group_lines(draft_group, tolerance, is_open=is_open),
        "has_bar": any(row.target for row in draft_group.rows),
        "has_small": has_small(draft_group),
        "numbers": group_json(draft_group, tolerance, is_open=is_open),
        "neighbours": pages.neighbours(view),
        "tolerance": tolerance,
    }


def parent_of(view: DraftView, editor: EditorState) -> Node:
    """The entry whose children are shown: `group`, the parent of `entry`, or the root."""
    if editor.group is not None:
        return view.require(editor.group)
    entry = view.require(editor.entry) if editor.entry is not None else None
    return view.tree.root if entry is None or entry.parent_uid is None else view.require(entry.parent_uid)


def _in_group(editor: EditorState, parent: Node) -> EditorState:
    """The state with this group, so that forms of the page lead back to it."""
    return replace(editor, group=parent.uid, back=f"group={parent.uid}")
