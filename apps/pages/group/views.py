"""Pages of a group's lead: change all members in one table, and request more for the group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, status_of
from apps.core.typed_numbers import read_whole
from apps.explain.my_priority import get_my_priority
from apps.pages.group.forms import GroupInput, apply_step, read_group
from apps.pages.group.inbox.forms import AskForm
from apps.pages.group.inbox.presenters import RequestCard, draw_request
from apps.pages.group.presenters import RankEffect, draw_members, rank_effect
from apps.policies.access.scope import holds_a_role
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import Comment, Policy
from apps.policies.operations.apply import Operation
from apps.policies.requests.group_division import (
    divide_group,
    latest_divisions,
    list_managed_groups,
    plan_division,
    undo_division,
)
from apps.policies.requests.share_requests import RequestState, RequestTerms, plan_request, request_shares, requests_for
from apps.priorities.request_evidence import get_request_evidence, preview_request
from apps.priorities.selectors.group import GroupPage, get_group_page, load_members
from apps.priorities.sentences import numbers
from apps.series.convergence.selectors import list_weeks
from apps.web.links.addresses import group_url
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import long_day
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.svg import bars
from apps.web.texts import algorithm_text
from apps.web.texts.origins import origin_of

__all__ = [
    "TypedGroup",
    "add_error",
    "ask",
    "ask_effect",
    "context_of",
    "effect",
    "evaluate_form",
    "form",
    "group",
    "group_url",
    "my_group",
    "open_group",
    "page_url",
    "show",
    "start",
    "undo",
]

_MOST_REQUESTS = 3


@dataclass(frozen=True)
class TypedGroup:
    """A group's page and the typed form."""

    page: GroupPage
    typed: GroupInput
    n_changes: int = 0
    ranks: RankEffect | None = None


def page_url(policy: str, uid: UUID, **_kwargs: Any) -> str:
    return group_url(policy, uid)


def open_group(request: HttpRequest, policy: str, uid: UUID) -> TypedGroup:
    page = get_group_page(policy_slug=policy, uid=uid, at=clock.now(), actor=actor_of(request), cursor=_cursor(request))
    return TypedGroup(page, GroupInput(page.nodes, base_revision=page.revision))


def evaluate_form(request: HttpRequest, policy: str, uid: UUID, typed: GroupInput) -> TypedGroup:
    """The group with the effect of the valid typed values; invalid ones are reported at their field."""
    actor, at = actor_of(request), clock.now()
    division = typed.division()
    operations: Sequence[Operation] = ()
    try:
        operations = plan_division(policy_slug=policy, entry_uid=uid, division=division, at=at, actor=actor)
        page = get_group_page(
            policy_slug=policy, uid=uid, at=at, actor=actor, operations=operations, cursor=_cursor(request)
        )
    except DomainError as error:
        add_error(typed, error)
        return replace(open_group(request, policy, uid), typed=typed)
    touched = {operation.get("entry") or operation.get("name") for operation in operations}
    return TypedGroup(page, typed, len(touched), rank_effect(page, operations))


def add_error(typed: GroupInput, error: DomainError) -> None:
    """Add an error to the form: at its field, or above the form if it belongs to none."""
    for problem in error.fields:
        known = problem.where.startswith(("shares-", "until-")) or problem.where == "reason"
        if known:
            typed.refuse(problem.where, error.message, error.code)
            return
    typed.refuse("names" if typed.names and error.code in ("name_taken", "invalid") else "", error.message, error.code)


def show(
    request: HttpRequest,
    typed_group: TypedGroup,
    *,
    status: int = 200,
    ask: AskForm | None = None,
    ask_refusal: DomainError | None = None,
    conflict: Conflict | None = None,
    refusal: str = "",
) -> HttpResponse:
    context = context_of(request, typed_group)
    if conflict is not None:
        context["conflict_lines"] = _conflict_lines(conflict)
        context["base_revision"] = typed_group.page.revision  # publishing again is based on the current revision
    context |= {"ask": ask, "ask_refusal": ask_refusal, "ask_problem": ask_refusal.message if ask_refusal else ""}
    context |= {"refusal": refusal, **_side_context(request, typed_group)}
    return render(request, "pages/group/group.html", context, status=status)


def context_of(request: HttpRequest, typed_group: TypedGroup) -> dict[str, Any]:
    """Template context of the form."""
    page, typed = typed_group.page, typed_group.typed
    return {
        "page": page,
        "group": page.group,
        "parent": page.parent,
        "policy": page.policy_slug,
        "uid": page.group.uid,
        "typed": typed,
        "problems": typed.problems,
        "members": draw_members(page, typed),
        "has_places": any(row.place is not None for row in page.members),
        "has_groups": any(row.entry.kind != "user" for row in page.members),
        "n_changes": typed_group.n_changes,
        "ranks": typed_group.ranks,
        "base_revision": typed.base_revision or page.revision,
        "cursor": _cursor(request) or "",
    }


def _side_context(request: HttpRequest, typed_group: TypedGroup) -> dict[str, Any]:
    """Template context beside the form."""
    page, actor, at = typed_group.page, actor_of(request), clock.now()
    policy = Policy.all_objects.get(slug=page.policy_slug)
    led = list_managed_groups(at=at, actor=actor)
    tolerance = lines.tolerance_of(page.settings)
    own = lines.draw_lines(
        [page.group], lines.LineContext(policy_slug=page.policy_slug, tolerance=tolerance, width=bars.PANEL_WIDTH)
    )[0]
    cards = _cards(request, policy, page)
    waiting = next((card for card in cards if card.state is RequestState.OPEN), None)
    return {
        "own": own,
        "decides_by_levels": algorithm_text.decides_by_levels(page.algorithm),
        "origin": origin_of(policy_slug=page.policy_slug, uid=page.group.uid, at=at, actor=actor),
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
        "tree_url": reverse("pages:policy", kwargs={"policy": page.policy_slug}),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("pages:policy", kwargs={"policy": page.policy_slug})},
            {"label": _("My group")},
        ],
    }


def _cards(request: HttpRequest, policy: Policy, page: GroupPage) -> list[RequestCard]:
    actor, at = actor_of(request), clock.now()
    requests = requests_for(policy=policy, entry_uid=page.group.uid, at=at, actor=actor, limit=_MOST_REQUESTS)
    comments: dict[int, list[Comment]] = {}
    for comment in Comment.objects.filter(change_set__in=[each.pk for each in requests]):
        comments.setdefault(comment.change_set_id, []).append(comment)
    stories = [get_request_evidence(each, actor=actor, with_ranks=False) for each in requests]
    return [
        draw_request(story, comments.get(story.change_set.pk, []), list_weeks(story, actor=actor)) for story in stories
    ]


def _conflict_lines(conflict: Conflict) -> list[str]:
    if not isinstance(conflict, EditConflict):
        return [conflict.message]
    return [
        presentation.field_conflict(each.path, each.field, base=each.base, current=each.theirs, wanted=each.mine)
        for each in conflict.conflicts
    ]


def _cursor(request: HttpRequest) -> str | None:
    return request.POST.get("cursor") or request.GET.get("cursor") or None


@require_safe
def my_group(request: HttpRequest) -> HttpResponse:
    """Redirect to the first group that the actor leads, else to the group of their first account.

    Without both, a page says so.
    """
    led = list_managed_groups(at=clock.now(), actor=actor_of(request))
    if led:
        return SeeOther(group_url(led[0].policy_slug, led[0].uid))
    accounts = [each for each in get_my_priority(actor=actor_of(request)) if len(each.walk) > 1]
    wanted = [each for each in accounts if each.policy_slug == request.GET.get("policy")]
    if preferred := wanted or accounts:
        above = preferred[0].walk[-2]
        return SeeOther(lines.entry_url(preferred[0].policy_slug, above.uid, above.name))
    return render(request, "pages/group/none.html", {"crumbs": [{"label": _("My group")}]})


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """Start page: leads go to their group, users to their priority, all others to the overview."""
    at, actor = clock.now(), actor_of(request)
    if list_managed_groups(at=at, actor=actor):
        return SeeOther(reverse("pages:my-group"))
    return SeeOther(reverse("pages:overview" if holds_a_role(at=at, actor=actor) else "pages:my-priority"))


@require_http_methods(["GET", "HEAD", "POST"])
def group(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The group's page. POST changes the typed values, previews them or publishes them; only publishing stores."""
    if request.method != "POST":
        return show(request, open_group(request, policy, uid))
    step = request.POST.get("step", "")
    typed_group = evaluate_form(request, policy, uid, _typed(request, policy, uid, step))
    if step != "publish":
        return show(request, typed_group)
    return _publish(request, typed_group)


@require_http_methods(["GET", "HEAD", "POST"])
@fragment(page_url)
def form(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The table after a button that changes typed values. Stores nothing."""
    typed = _typed(request, policy, uid, request.POST.get("step", ""))
    typed_group = evaluate_form(request, policy, uid, typed)
    return _announced(render(request, "pages/group/_form.html", context_of(request, typed_group)), typed_group)


@require_http_methods(["GET", "HEAD", "POST"])
@fragment(page_url)
def effect(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The cells that depend on the typed values, refreshed while typing. Stores nothing."""
    typed = _typed(request, policy, uid, "")
    typed_group = evaluate_form(request, policy, uid, typed)
    return _announced(render(request, "pages/group/_effect.html", context_of(request, typed_group)), typed_group)


@require_safe
@fragment(page_url)
def ask_effect(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Preview of the target for a requested amount, refreshed while typing."""
    typed_group = open_group(request, policy, uid)
    typed = AskForm(request.GET)
    context: dict[str, Any] = {"group": typed_group.page.group, "parent": typed_group.page.parent}
    typed.is_valid()
    if "amount" in typed.errors or "until" in typed.errors:
        wrong = typed.errors.as_data().get("amount") or typed.errors.as_data()["until"]
        context |= {"ask_problem": wrong[0].messages[0], "ask_code": wrong[0].code}
    else:
        try:
            operations = plan_request(
                policy_slug=policy,
                entry_uid=uid,
                terms=RequestTerms(**typed.wish),
                at=clock.now(),
                actor=actor_of(request),
            )
            after = preview_request(policy_slug=policy, uid=uid, operations=operations, actor=actor_of(request))
            context["ask_targets"] = numbers.change_shares(typed_group.page.group.target, after)
        except DomainError as error:
            context |= {"ask_problem": error.message, "ask_code": error.code}
    return render(request, "pages/group/_ask_effect.html", context)


@require_POST
def ask(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Send a request for more to the group's managers."""
    typed_group = open_group(request, policy, uid)
    typed = AskForm(request.POST)
    if not typed.is_valid():
        return show(request, typed_group, status=422, ask=typed)
    try:
        request_shares(
            policy_slug=policy,
            entry_uid=uid,
            terms=RequestTerms(**typed.wish),
            reason=typed.cleaned_data["reason"],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        status = status_of(error)
        return show(request, typed_group, status=status, ask=typed, ask_refusal=error)
    messages.success(request, _("Submitted"))
    return SeeOther(f"{group_url(policy, uid)}#ask")


@require_POST
def undo(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Revert a change of this group."""
    number = read_whole(request.POST.get("number", ""), 9) or 0
    typed_group = open_group(request, policy, uid)
    try:
        revision = undo_division(
            policy_slug=policy, entry_uid=uid, number=number, at=clock.now(), actor=actor_of(request)
        )
    except (Invalid, Conflict) as error:
        return show(request, typed_group, status=409, refusal=error.message)
    messages.success(
        request,
        _("Revision %(undone)s is undone, as revision %(n)s.") % {"undone": number, "n": revision.number},
    )
    return SeeOther(group_url(policy, uid))


def _typed(request: HttpRequest, policy: str, uid: UUID, step: str) -> GroupInput:
    members = load_members(policy_slug=policy, uid=uid, at=clock.now(), actor=actor_of(request))
    typed = read_group(request.POST, members)
    apply_step(typed, step, timezone.localdate(clock.now()))
    return typed


def _publish(request: HttpRequest, typed_group: TypedGroup) -> HttpResponse:
    policy, uid, typed = typed_group.page.policy_slug, typed_group.page.group.uid, typed_group.typed
    if not typed.reason.strip():
        typed.refuse("reason", _("Enter a reason to publish."), "required")
    if typed.problems:
        return show(request, typed_group, status=422)
    try:
        done = divide_group(
            policy_slug=policy,
            entry_uid=uid,
            division=typed.division(),
            reason=typed.reason,
            base_revision=typed.base_revision,
            at=clock.now(),
            actor=actor_of(request),
        )
    except Invalid as error:
        add_error(typed, error)
        return show(request, typed_group, status=422)
    except Conflict as error:
        return show(request, typed_group, status=409, conflict=error)
    if done.revision is None:
        messages.warning(request, _("Submitted. %(why)s") % {"why": done.why})
    else:
        add_published_message(request, done.revision, has_undo=False)
    return SeeOther(group_url(policy, uid))


def _announced(response: HttpResponse, typed_group: TypedGroup) -> HttpResponse:
    n = typed_group.n_changes
    words = ngettext("%(n)s unpublished change", "%(n)s unpublished changes", n) % {"n": n}
    response["HX-Trigger"] = json.dumps({"announce": words})
    return response
