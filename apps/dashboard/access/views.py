"""Who may do what in a policy, and why; roles given, changed, extended and ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.dashboard.access import presenters as access_lines
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import fragment
from apps.mapping.visibility import see
from apps.policies.access import holders as access
from apps.policies.access.holders import GrantLine, GrantState
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree

_MOST_NAMES = 200

_HOLDS = (GrantState.IN_FORCE, GrantState.SOON)


def page_url(policy: str, **_kwargs: Any) -> str:
    return reverse("dashboard:access", kwargs={"policy": policy})


def entry_page_url(policy: str, uid: UUID) -> str:
    return reverse("dashboard:entry-find", kwargs={"policy": policy, "uid": uid})


@require_safe
def overview(request: HttpRequest, policy: str) -> HttpResponse:
    """The tester, the list with its filter, what ends soon, and what roles come to."""
    found = get_policy(slug=policy, actor=actor_of(request))
    now = clock.now()
    lines = access.list_grants(policy_slug=policy, at=now, actor=actor_of(request))
    soon = [access_lines.grant_row(policy, line, now) for line in access.ending_soon(lines)]
    people = {access.name_of(line.grant) for line in lines}
    context = {
        "policy": policy,
        "policy_name": found.name,
        "summary": access_lines.count_words(len(people), len(lines), len(soon)),
        "soon": soon,
        "can_extend": [row for row in soon if row.may_open],
        "may_give": access.may_give(policy_slug=policy, at=now, actor=actor_of(request)),
        "roles": Grant.Role.choices,
        "table": access_lines.roles_table(),
        "crumbs": [
            {"label": found.name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Access")},
        ],
        **_list_context(request, policy, lines, now),
        **_why_context(request, found, now, _own_place(lines)),
    }
    return render(request, "dashboard/access/access.html", context)


@require_safe
@fragment(page_url)
def grants(request: HttpRequest, policy: str) -> HttpResponse:
    """The list as the filter leaves it."""
    now = clock.now()
    lines = access.list_grants(policy_slug=policy, at=now, actor=actor_of(request))
    return render(request, "dashboard/access/_grants.html", _list_context(request, policy, lines, now))


@require_safe
@fragment(page_url)
def why(request: HttpRequest, policy: str) -> HttpResponse:
    """What one person may do at one entry, and why."""
    found = get_policy(slug=policy, actor=actor_of(request))
    context = _why_context(request, found, clock.now())
    status = 422 if context["why_problem"] else 200
    return render(request, "dashboard/access/_why.html", {"policy": policy, **context}, status=status)


@require_safe
@fragment(entry_page_url)
def of_entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The part of an entry's page: what I may do here, and who else holds something."""
    now, actor = clock.now(), actor_of(request)
    answer = access.explain_access(policy_slug=policy, entry_uid=uid, username="", at=now, actor=actor, visibility=see)
    here = {step.uid for step in answer.steps}
    lines = access.list_grants(policy_slug=policy, at=now, actor=actor)
    wanted = [line for line in lines if line.grant.entry_uid in here and line.state is not GrantState.EXPIRED]
    context = {
        "policy": policy,
        "uid": uid,
        "why": access_lines.draw_why(answer, now),
        "path": answer.path,
        "rows": [access_lines.grant_row(policy, line, now) for line in wanted],
        "may_give": access.may_give(policy_slug=policy, at=now, actor=actor),
    }
    return render(request, "dashboard/access/_entry.html", context)


def _list_context(request: HttpRequest, policy: str, lines: list[GrantLine], now: datetime) -> dict[str, Any]:
    asked: dict[str, Any] = {"query": request.GET.get("q", "")[:200], "role": request.GET.get("role", "")}
    asked["soon"] = request.GET.get("soon") == "1"
    rows = [(line, access_lines.grant_row(policy, line, now)) for line in lines]
    shown = [row for line, row in rows if access_lines.matches(row, grant=line.grant, **asked)]
    as_matrix = request.GET.get("view") == "matrix"
    return {
        "query": asked["query"],
        "role": asked["role"],
        "soon_only": asked["soon"],
        "policy": policy,
        "rows": shown,
        "n_hidden": len(rows) - len(shown),
        "as_matrix": as_matrix,
        "matrix": access_lines.draw_matrix(shown) if as_matrix else None,
        "roles": Grant.Role.choices,
    }


def _own_place(lines: list[GrantLine]) -> str:
    """Where the reader's own rights begin: the answer that is looked for first."""
    return next((line.path for line in lines if line.is_own and line.state in _HOLDS), "/")


def _why_context(request: HttpRequest, policy: Policy, now: datetime, place: str = "/") -> dict[str, Any]:
    actor = actor_of(request)
    person, path = request.GET.get("person", "").strip(), request.GET.get("entry", "").strip() or place
    context: dict[str, Any] = {"person": person, "path": path, "why": None, "why_problem": "", "why_code": ""}
    try:
        uid = entry_uid(request, policy, path)
        found = access.explain_access(
            policy_slug=policy.slug, entry_uid=uid, username=person, at=now, actor=actor, visibility=see
        )
        context["why"] = access_lines.draw_why(found, now)
        context["path"] = found.path
    except (Invalid, NotAllowed, NotFound) as refusal:
        context["why_problem"], context["why_code"] = refusal.message, refusal.code
    return context


def entry_uid(request: HttpRequest, policy: Policy, text: str) -> UUID:
    """The entry with this path, among those that the person may see."""
    path, actor, tree = "/" + text.strip().strip("/"), actor_of(request), load_tree(policy)
    index = tree.index_of_path(path)
    if index is not None and see(policy=policy, tree=tree, at=clock.now(), actor=actor).may_see(index):
        return tree.uuid(index)
    message = _("No visible entry %(path)s in this policy.") % {"path": path}
    raise Invalid(message, fields=[FieldProblem("entry", message)])
