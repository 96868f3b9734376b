"""Search as a page, as the fragment of the palette, and the switch of single keys."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core.errors import DomainError
from apps.dashboard.search import presenters
from apps.dashboard.search.catalogue import Here
from apps.dashboard.search.shortcuts import KEYS_COOKIE
from apps.dashboard.shell import lines
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.policies.selectors import list_policies
from apps.priorities.selectors.rows import open_view
from apps.search.answers import examples
from apps.search.entries import EntryHit, find_by_uid
from apps.search.selectors import LONGEST, MOST_EACH, MOST_LISTED, GroupKind, search_everything

_YEAR_S = 365 * 86400


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:search")


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """`?q=` a name or a question, `?in=` one group alone, `?policy=` the policy that comes first."""
    context = {**_results(request), "crumbs": [{"label": _("Search")}]}
    return _private(render(request, "dashboard/search/search.html", context))


@require_safe
@fragment(page_url)
def results(request: HttpRequest) -> HttpResponse:
    """The lines of the palette; `?last=` what this browser opened last, as `policy:uid`."""
    return _private(render(request, "dashboard/search/_results.html", _results(request)))


@login_not_required
@require_POST
def keys(request: HttpRequest) -> HttpResponse:
    """Single keys on or off in this browser; then back to the page it was asked on."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        back = reverse("dashboard:overview")
    response = SeeOther(back)
    if request.POST.get("keys") == "off":
        secure = bool(settings.SESSION_COOKIE_SECURE)
        response.set_cookie(KEYS_COOKIE, "off", max_age=_YEAR_S, samesite="Lax", httponly=True, secure=secure)
    else:
        response.delete_cookie(KEYS_COOKIE, samesite="Lax")
    return response


def _results(request: HttpRequest) -> dict[str, Any]:
    query = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
    only = request.GET.get("in", "") if request.GET.get("in", "") in presenters.LISTED_ALONE else ""
    here = Here(request)
    if not query:
        policies = sorted(list_policies(actor=here.actor), key=lambda policy: policy.slug != here.slug)
        groups = presenters.empty_groups(_recent(request), examples(policies, actor=here.actor)[:3], here)
        return {"query": "", "groups": groups, "answer": None, "only": "", "n_lines": _count(groups)}
    kind: GroupKind | None = only or None  # type: ignore[assignment]  # one of LISTED_ALONE
    most = MOST_LISTED if only else MOST_EACH
    found = search_everything(query=query, actor=here.actor, policy_slug=here.slug, only=kind, most=most)
    if found.answer is not None:
        groups = presenters.answer_groups(found.answer)
        rows = _answer_rows(request, found.answer) if found.answer.rows else []
        return {"query": query, "groups": groups, "answer": found.answer, "rows": rows, "n_lines": _count(groups)}
    groups = presenters.groups_of(found, here, only=only)
    return {"query": query, "groups": groups, "answer": None, "only": only, "n_lines": _count(groups)}


def _answer_rows(request: HttpRequest, answer: Any) -> list[presenters.AnswerRow]:
    view = open_view(policy_slug=answer.policy_slug, actor=actor_of(request))
    return presenters.answer_rows(answer, lines.tolerance_of(view.settings))


def _recent(request: HttpRequest) -> list[EntryHit]:
    """What this browser opened last, as far as it is still there and may be seen."""
    found = []
    for slug, uid in presenters.recent_refs(request.GET.getlist("last")):
        try:
            hit = find_by_uid(open_view(policy_slug=slug, actor=actor_of(request)), UUID(uid))
        except (DomainError, ValueError):
            continue
        if hit is not None:
            found.append(hit)
    return found


def _count(groups: list[presenters.ResultGroup]) -> int:
    return sum(len(group.items) for group in groups)


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-store"
    return response
