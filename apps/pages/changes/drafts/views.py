"""Pages and fragments that show a draft in the editor, and the endpoint that undoes the last publication."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound
from apps.core.typed_numbers import read_whole
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts.pages import EditorState
from apps.pages.changes.drafts.presenters import PERCENT, SHARES
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.publishing import revert
from apps.policies.selectors import get_policy
from apps.priorities.selectors.draft import DraftView, get_draft_page
from apps.web.changes.change_titles import titles_of
from apps.web.changes.edit_refusals import message_of
from apps.web.links.addresses import draft_url
from apps.web.shell.requests import SeeOther, actor_of, fragment


@require_http_methods(["GET", "HEAD", "POST"])
def undo(request: HttpRequest, policy: str) -> HttpResponse:
    """Publish the inverse of the current revision; if that is not possible at once, it remains a draft.

    Of several revisions, which were published together, all are undone or none. Then back to the page that asked.
    """
    tree = reverse("pages:policy", kwargs={"policy": policy})
    if request.method != "POST":
        return SeeOther(tree)
    at, actor = clock.now(), actor_of(request)
    numbers = [read_whole(text, 9) for text in request.POST.getlist("number")]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        raise NotFound("There is no such revision.")
    if len(known) > 1:
        return _undo_together(request, policy, known) or SeeOther(page_before(request) or tree)
    (number,) = known
    reason = _("Undoes revision %(n)s.") % {"n": number}
    draft = revert.revert_revision(policy_slug=policy, number=number, reason=reason, at=at, actor=actor)
    try:
        revision = services.publish_change_set(id=draft.pk, version=draft.version, reason=reason, at=at, actor=actor)
    except (Conflict, Invalid, NotAllowed) as error:
        messages.warning(
            request, _("Not undone yet: %(why)s It is now a draft.") % {"why": error.message}, extra_tags=error.code
        )
        return SeeOther(draft_url(draft.pk))
    words = {"undone": number, "n": revision.number}
    messages.success(request, _("Revision %(undone)s is undone, as revision %(n)s.") % words)
    return SeeOther(page_before(request) or tree)


def _undo_together(request: HttpRequest, policy: str, numbers: Sequence[int]) -> HttpResponse | None:
    """Undo these revisions and say so; the history, where each is undone by itself, if that isn't possible."""
    try:
        undone = revert.undo_revisions(policy_slug=policy, numbers=numbers, at=clock.now(), actor=actor_of(request))
    except (Conflict, Invalid, NotAllowed) as error:
        messages.warning(request, _("None is undone: %(why)s") % {"why": error.message}, extra_tags=error.code)
        return SeeOther(reverse("pages:history", kwargs={"policy": policy}))
    words = {"first": min(numbers), "last": max(numbers), "since": undone[0].number, "until": undone[-1].number}
    text = _("Revisions %(first)s to %(last)s are undone, as revisions %(since)s to %(until)s.")
    messages.success(request, text % words)
    return None


def page_before(request: HttpRequest) -> str | None:
    """Address of the page of this site that sent the form; None where the browser doesn't say it."""
    address = request.headers.get("Referer", "")
    is_here = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_here else None


def page_url(change_set: int, **_kwargs: Any) -> str:
    return draft_url(change_set)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, policy: str) -> HttpResponse:
    """Open the actor's draft of this policy; POST creates one if there is none, or another one with `new`.

    A draft with edits on an older revision isn't opened at once: the page lists it beside *Create draft*.
    """
    actor, at = actor_of(request), clock.now()
    viewed_policy = get_policy(slug=policy, actor=actor)
    own_drafts = drafts.list_drafts(policy=viewed_policy, at=at, actor=actor)
    current = next((draft for draft in own_drafts if draft.state == "draft"), None)
    entry = request.POST.get("entry") or request.GET.get("entry", "")
    back = QueryDict(mutable=True)
    if entry:
        back["entry"] = str(pages.uid_of(entry))
    is_behind = current is not None and current.base_number < viewed_policy.head_number
    if request.method == "POST" and (current is None or request.POST.get("new")):
        current = drafts.open_draft(policy_slug=policy, reason=request.POST.get("reason", ""), at=at, actor=actor)
        return SeeOther(draft_url(current.pk, back.urlencode()))
    if current is not None and not request.GET.get("list"):
        if is_behind and current.operations:
            back["list"] = "1"
            return SeeOther(f"{request.path}?{back.urlencode()}")
        if is_behind and request.method == "POST":
            drafts.update_draft(id=current.pk, version=current.version, at=at, actor=actor)
        return SeeOther(draft_url(current.pk, back.urlencode()))
    titles = titles_of(own_drafts, actor=actor, at=at)
    context = {
        "viewed_policy": viewed_policy,
        "drafts": [{"draft": each, "title": titles[each.pk].text, "n": len(each.operations)} for each in own_drafts],
        "may_edit": drafts.may_edit(viewed_policy, actor, at),
        "entry": entry,
        "crumbs": [
            {"label": viewed_policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Edit")},
        ],
    }
    return render(request, "pages/changes/drafts/begin.html", context)


@require_safe
def draft(request: HttpRequest, change_set: int) -> HttpResponse:
    """The editor; its URL carries the whole state (`view`, `group`, `open`, `entry`, `q`, `mode`)."""
    return show(request, pages.open_view(request, change_set), EditorState.of(request.GET))


def show(request: HttpRequest, view: DraftView, editor: EditorState, *, status: int = 200, **more: Any) -> HttpResponse:
    """Render the editor. more: further context, such as a refusal."""
    context = pages.page_context(view, editor)
    state = QueryDict(context["editor"].back)
    links = {mode: _with_state(state, mode=mode) for mode in (SHARES, PERCENT)}
    views = {name: _with_state(state, view=name) for name in pages.VIEWS}
    context |= {"links": links, "views": views, "page_url": draft_url(view.draft.pk), **more}
    return render(request, "pages/changes/drafts/draft.html", context, status=status)


def _with_state(state: QueryDict, **changed: str) -> str:
    """The query of the same page with another state."""
    link = state.copy()
    for name, value in changed.items():
        link[name] = value
    return f"?{link.urlencode()}"


def group_parts(request: HttpRequest, view: DraftView, editor: EditorState, *, announcement: str = "") -> HttpResponse:
    """Fragments with the draft's bar, the panel, and the numbers of the group."""
    context = pages.group_context(view, editor) | {"announcement": announcement}
    response = render(request, "pages/changes/drafts/_group.html", context)
    response["ETag"] = f'"{view.draft.version}"'
    return response


@require_safe
@fragment(page_url)
def group(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the current state of a group, which the script fetches after a refusal."""
    return group_parts(request, pages.open_view(request, change_set), EditorState.of(request.GET))


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the children of one entry, a hundred at a time, or with the entries that match `q`."""
    view, editor = pages.open_view(request, change_set), EditorState.of(request.GET)
    parent = request.GET.get("parent")
    page = get_draft_page(
        view,
        open_uids=editor.opened,
        query="" if parent else editor.query,
        parent_uid=pages.uid_of(parent) if parent else None,
        cursor=request.GET.get("cursor"),
    )
    response = render(request, "pages/changes/drafts/_rows.html", pages.rows_context(view, page, editor))
    if not parent and editor.query:
        announcement = ngettext("%(n)s entry found", "%(n)s entries found", page.n_matches) % {"n": page.n_matches}
        response["HX-Trigger"] = json.dumps({"announce": announcement})
    return response


@require_safe
@fragment(page_url)
def panel(request: HttpRequest, change_set: int) -> HttpResponse:
    view, editor = pages.open_view(request, change_set), EditorState.of(request.GET)
    return render(request, "pages/changes/drafts/_panel.html", pages.panel_context(view, editor))


@require_safe
@fragment(page_url)
def action(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the form of one action on an entry, for a dialog."""
    view, editor = pages.open_view(request, change_set), EditorState.of(request.GET)
    node = view.require(_entry(editor))
    return render(request, "pages/changes/drafts/_action.html", pages.action_context(view, node, editor))


def words_of_refusal(error: DomainError) -> str:
    return message_of(error) if isinstance(error, Invalid | NotFound) else error.message


def _entry(editor: EditorState) -> UUID:
    if editor.entry is None:
        raise NotFound("There is no such entry in this draft.")
    return editor.entry
