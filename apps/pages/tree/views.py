"""The policy tree page: shares beside usage, one row an entry; fragments, CSV and selected rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, Stale, TooLarge, status_of
from apps.pages.tree import presenters, selection
from apps.pages.tree.presenters import panel_context, rows_context
from apps.pages.tree.state import TreeState, read_state, toggled, uid_of
from apps.priorities import selectors
from apps.priorities.selectors import open_view
from apps.priorities.selectors.tree import get_tree_rows, selectable
from apps.web.links.addresses import draft_url
from apps.web.listings.tree_listing import csv_blocks, csv_columns
from apps.web.shell import time_travel
from apps.web.shell.requests import SeeOther, actor_of, csv_response_by_columns, fragment

MOST_CURRENT = 100  # rows of one request


def page_url(policy: str, **_: Any) -> str:
    return reverse("pages:policy", kwargs={"policy": policy})


@require_safe
def tree(request: HttpRequest, policy: str) -> HttpResponse:
    """The whole page; the query string has its state (see TreeState) and the selected entry."""
    if "toggle" in request.GET:
        return SeeOther(f"{page_url(policy)}?{toggled(request.GET).urlencode()}")
    if elsewhere := time_travel.day_redirect(request):
        return SeeOther(elsewhere)
    return show(request, policy, read_state(request))


def show(
    request: HttpRequest,
    policy: str,
    state: TreeState,
    *,
    status: int = 200,
    selected: Sequence[UUID] = (),
    **more: Any,
) -> HttpResponse:
    """Render the page; `more` is added to its context."""
    page = selectors.get_tree_page(
        policy_slug=policy, actor=actor_of(request), arranged=state.arranged, after=_after(request), at=state.at
    )
    chosen = uid_of(request.GET["entry"]) if request.GET.get("entry") else None
    context = {
        **rows_context(page, state),
        **presenters.controls_context(page, state),
        **presenters.selection_context(page, actor_of(request)),
        **panel_context(request, policy, chosen),
        "state": state,
        "selected": set(selected),
        "look_back": None if page.moment else time_travel.look_back(request, policy),
        "time_bar": time_travel.time_bar(request, page.moment, policy),
        "at": "" if state.at is None else time_travel.moment_text(state.at),
        "local_only": presenters.local_only_of(page),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("pages:overview")},
            {"label": _("Policy tree")},
        ],
        **more,
    }
    return render(request, "pages/tree/tree.html", context, status=status)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """Rows of the children of one entry (`parent`), or the rows after one (`after`)."""
    state = read_state(request)
    after = _after(request)
    page = selectors.get_tree_page(
        policy_slug=policy,
        actor=actor_of(request),
        arranged=state.arranged,
        after=after,
        parent_uid=None if after else uid_of(request.GET.get("parent", "")),
        cursor=request.GET.get("cursor") or None,
        at=state.at,
    )
    return render(request, "pages/tree/_rows.html", rows_context(page, state))


@require_safe
@fragment(page_url)
def current(request: HttpRequest, policy: str) -> HttpResponse:
    """Present content of the visible rows (`?e=`, repeated) and of the page's head."""
    wanted = tuple(uid_of(text) for text in request.GET.getlist("e")[:MOST_CURRENT])
    page = get_tree_rows(policy_slug=policy, actor=actor_of(request), uids=wanted)
    return render(request, "pages/tree/_current.html", rows_context(page, read_state(request)))


@require_safe
@fragment(page_url)
def search(request: HttpRequest, policy: str) -> HttpResponse:
    """Rows of the matching entries and their ancestors."""
    state = read_state(request)
    page = selectors.get_tree_page(policy_slug=policy, actor=actor_of(request), arranged=state.arranged, at=state.at)
    response = render(request, "pages/tree/_rows.html", rows_context(page, state))
    response["HX-Replace-Url"] = page_url(policy) + (state.address() if state.pairs() else "")
    announcement = ngettext("%(n)s entry found", "%(n)s entries found", page.n_matches) % {"n": page.n_matches}
    response["HX-Trigger"] = json.dumps({"announce": announcement if state.query else ""})
    return response


@require_safe
def table(request: HttpRequest, policy: str) -> HttpResponseBase:
    """All rows of the state as CSV, with the page's filter, order, columns and permissions."""
    state = read_state(request)
    page = selectors.get_tree_page(policy_slug=policy, actor=actor_of(request), arranged=state.arranged, at=state.at)
    own = presenters.own_column_of(page)
    shown = [heading.column.name for heading in presenters.headings_of(page, state, own) if heading.is_shown]
    columns = csv_columns(shown, own, state.of)
    blocks = () if page.view is None else csv_blocks(page.view, state.arranged, columns, own)
    return csv_response_by_columns(f"{policy}-tree.csv", [column.name for column in columns], blocks)


@require_safe
@fragment(page_url)
def panel(request: HttpRequest, policy: str) -> HttpResponse:
    """The panel of the selected entry."""
    context = panel_context(request, policy, uid_of(request.GET.get("entry", "")))
    return render(request, "pages/tree/_panel.html", context)


def _after(request: HttpRequest) -> UUID | None:
    return uid_of(request.GET["after"]) if request.GET.get("after") else None


@require_http_methods(["GET", "HEAD", "POST"])
def act(request: HttpRequest, policy: str) -> HttpResponse:
    """Apply an action to the selected entries.

    `e`: an entry, repeated; `entries`: several in one field; `all`: every row of the query string in `state`.
    """
    if request.method != "POST":
        return SeeOther(page_url(policy))
    state = read_state(request, QueryDict(request.POST.get("state", "").removeprefix("?")))
    uids: Sequence[UUID] = ()
    try:
        uids = _selected(request, policy, state)
        draft = selection.add_to_draft(
            policy_slug=policy, uids=uids, fields=request.POST, at=clock.now(), actor=actor_of(request)
        )
    except (Invalid, Conflict, NotFound, Stale, TooLarge) as error:
        problem = selection.problem_of(error)
        kept = uids[: selection.MOST_SELECTED]
        return show(request, policy, state, status=status_of(error), selected=kept, typed=request.POST, **problem)
    return SeeOther(draft_url(draft.pk) + "#edits")


def _selected(request: HttpRequest, policy: str, state: TreeState) -> list[UUID]:
    if request.POST.get("all"):
        view = open_view(policy_slug=policy, actor=actor_of(request))
        return selectable(view, state.arranged)
    named = [*request.POST.getlist("e"), *request.POST.get("entries", "").split()]
    return [uid_of(text) for text in dict.fromkeys(named)]
