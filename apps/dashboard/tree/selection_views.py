"""One action on the selected rows of the tree, reviewed as a draft."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, Stale, TooLarge, status_of
from apps.dashboard.drafts.pages import draft_url
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.dashboard.tree import selection
from apps.dashboard.tree.state import TreeState, read_state, uid_of
from apps.dashboard.tree.views import page_url, show
from apps.priorities.selectors import open_view
from apps.priorities.selectors.tree import selectable


@require_http_methods(["GET", "HEAD", "POST"])
def act(request: HttpRequest, policy: str) -> HttpResponse:
    """`e`: an entry, once for each; `entries`: many in one field; `all`: every row of `state`, which is the address."""
    if request.method != "POST":
        return SeeOther(page_url(policy))
    state = read_state(request, QueryDict(request.POST.get("state", "").removeprefix("?")))
    uids: Sequence[UUID] = ()
    try:
        uids = _selected(request, policy, state)
        draft = selection.add_to_draft(
            policy_slug=policy, uids=uids, given=request.POST, at=clock.now(), actor=actor_of(request)
        )
    except (Invalid, Conflict, NotFound, Stale, TooLarge) as error:
        told = selection.problem_of(error)
        kept = uids[: selection.MOST_SELECTED]
        return show(request, policy, state, status=status_of(error), selected=kept, typed=request.POST, **told)
    return SeeOther(draft_url(draft.pk) + "#edits")


def _selected(request: HttpRequest, policy: str, state: TreeState) -> list[UUID]:
    if request.POST.get("all"):
        view = open_view(policy_slug=policy, actor=actor_of(request))
        return selectable(view, state.arranged)
    named = [*request.POST.getlist("e"), *request.POST.get("entries", "").split()]
    return [uid_of(text) for text in dict.fromkeys(named)]
