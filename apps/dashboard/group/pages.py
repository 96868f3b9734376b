"""The page of a group, put together: who is in it, what is typed, what was asked upward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.errors import Conflict, DomainError
from apps.dashboard.algorithm import words as algorithm_words
from apps.dashboard.figures import bullet
from apps.dashboard.group.forms import GroupInput
from apps.dashboard.group.presenters import draw_members, long_day, scale_of
from apps.dashboard.requests.forms import AskForm
from apps.dashboard.requests.words import RequestCard, draw_request, group_url
from apps.dashboard.shell import lines, origins, presentation
from apps.dashboard.shell.actor import actor_of
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import Comment, Policy
from apps.policies.operations.apply import Operation
from apps.policies.requests.group_division import latest_divisions, list_led_groups, plan_division
from apps.policies.requests.share_requests import RequestState, requests_for
from apps.priorities.change_effects.requests import get_request_evidence
from apps.priorities.selectors.changesets.group import GroupPage, get_group_page

__all__ = ["Found", "context_of", "group_url", "open_group", "page_url", "show", "tell", "work_out"]
_MOST_REQUESTS = 3


@dataclass(frozen=True)
class Found:
    """A group as it is looked at, and what is typed for it."""

    page: GroupPage
    typed: GroupInput
    n_changes: int = 0


def page_url(policy: str, uid: UUID, **_kwargs: Any) -> str:
    return group_url(policy, uid)


def open_group(request: HttpRequest, policy: str, uid: UUID) -> Found:
    page = get_group_page(policy_slug=policy, uid=uid, at=clock.now(), actor=actor_of(request), cursor=_cursor(request))
    return Found(page, GroupInput(page.nodes, base_revision=page.revision))


def work_out(request: HttpRequest, policy: str, uid: UUID, typed: GroupInput) -> Found:
    """With the effect of what is typed, as far as it makes sense; what doesn't is told in its place."""
    actor, at = actor_of(request), clock.now()
    division = typed.division()
    operations: Sequence[Operation] = ()
    try:
        operations = plan_division(policy_slug=policy, entry_uid=uid, division=division, at=at, actor=actor)
        page = get_group_page(
            policy_slug=policy, uid=uid, at=at, actor=actor, operations=operations, cursor=_cursor(request)
        )
    except DomainError as error:
        tell(typed, error)
        return replace(open_group(request, policy, uid), typed=typed)
    touched = {operation.get("entry") or operation.get("name") for operation in operations}
    return Found(page, typed, len(touched))


def tell(typed: GroupInput, error: DomainError) -> None:
    """A refusal at its field; what belongs to no field of this form stands above it."""
    for problem in error.fields:
        known = problem.where.startswith(("shares-", "until-")) or problem.where == "reason"
        if known:
            typed.refuse(problem.where, error.message, error.code)
            return
    typed.refuse("names" if typed.names and error.code in ("name_taken", "invalid") else "", error.message, error.code)


def show(
    request: HttpRequest,
    found: Found,
    *,
    status: int = 200,
    ask: AskForm | None = None,
    ask_refusal: DomainError | None = None,
    conflict: Conflict | None = None,
    refusal: str = "",
) -> HttpResponse:
    context = context_of(request, found)
    if conflict is not None:
        context["conflict_lines"] = _conflict_lines(conflict)
        context["base_revision"] = found.page.revision  # publishing again is on top of what is in force now
    context |= {"ask": ask, "ask_refusal": ask_refusal, "ask_problem": ask_refusal.message if ask_refusal else ""}
    context |= {"refusal": refusal, **_around(request, found)}
    return render(request, "dashboard/group/group.html", context, status=status)


def context_of(request: HttpRequest, found: Found) -> dict[str, Any]:
    """What the form shows."""
    page, typed = found.page, found.typed
    return {
        "page": page,
        "group": page.group,
        "parent": page.parent,
        "policy": page.policy_slug,
        "uid": page.group.uid,
        "typed": typed,
        "problems": typed.problems,
        "members": draw_members(page, typed),
        "n_changes": found.n_changes,
        "scale": presentation.percent(scale_of(page), 0),
        "base_revision": typed.base_revision or page.revision,
        "cursor": _cursor(request) or "",
    }


def _around(request: HttpRequest, found: Found) -> dict[str, Any]:
    """What stands beside the form."""
    page, actor, at = found.page, actor_of(request), clock.now()
    policy = Policy.objects.get(slug=page.policy_slug)
    led = list_led_groups(at=at, actor=actor)
    tolerance = lines.tolerance_of(page.settings)
    own = lines.draw_lines([page.group], policy_slug=page.policy_slug, tolerance=tolerance, width=bullet.PANEL_WIDTH)[0]
    cards = _cards(request, policy, page)
    waiting = next((card for card in cards if card.state is RequestState.OPEN), None)
    return {
        "own": own,
        "decides_by_levels": algorithm_words.decides_by_levels(page.algorithm),
        "origin": origins.origin_of(policy_slug=page.policy_slug, uid=page.group.uid, at=at, actor=actor),
        "led_until": long_day(page.until.date()) if page.until else "",
        "groups": [
            {
                "name": each.name,
                "path": each.path,
                "policy": each.policy_name,
                "url": group_url(each.policy_slug, each.uid),
                "is_current": each.uid == page.group.uid,
            }
            for each in led
        ],
        "undoable": list(latest_divisions(policy, page.group.uid, actor)),
        "requests": cards,
        "may_ask": page.parent is not None and not page.decides_own_shares and waiting is None,
        "tree_url": reverse("dashboard:policy", kwargs={"policy": page.policy_slug}),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:policy", kwargs={"policy": page.policy_slug})},
            {"label": _("My group")},
        ],
    }


def _cards(request: HttpRequest, policy: Policy, page: GroupPage) -> list[RequestCard]:
    actor, at = actor_of(request), clock.now()
    found = requests_for(policy=policy, entry_uid=page.group.uid, at=at, actor=actor, limit=_MOST_REQUESTS)
    said: dict[int, list[Comment]] = {}
    for comment in Comment.objects.filter(change_set__in=[each.pk for each in found]):
        said.setdefault(comment.change_set_id, []).append(comment)
    stories = [get_request_evidence(each, actor=actor, with_ranks=False) for each in found]
    return [draw_request(story, said.get(story.change_set.pk, [])) for story in stories]


def _conflict_lines(conflict: Conflict) -> list[str]:
    if not isinstance(conflict, EditConflict):
        return [conflict.message]
    return [
        presentation.field_conflict(each.path, each.field, base=each.base, theirs=each.theirs, mine=each.mine)
        for each in conflict.conflicts
    ]


def _cursor(request: HttpRequest) -> str | None:
    return request.POST.get("cursor") or request.GET.get("cursor") or None
