"""My group: a lead's first page. Members in one table, changed together; and asking upward for more."""

from __future__ import annotations

import json
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
from apps.core.error_status import status_of
from apps.core.errors import Conflict, DomainError, Invalid
from apps.dashboard.group import pages
from apps.dashboard.group.forms import GroupInput, read_group, read_number, take_step
from apps.dashboard.requests.forms import AskForm
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther, fragment
from apps.policies.requests.group_division import divide_group, list_led_groups, undo_division
from apps.policies.requests.share_requests import ask_upward, plan_request
from apps.priorities.change_effects.requests import preview_request
from apps.priorities.selectors.changesets.group import load_members


@require_safe
def my_group(request: HttpRequest) -> HttpResponse:
    """To the first group that somebody leads; who leads none is told what this would be."""
    led = list_led_groups(at=clock.now(), actor=actor_of(request))
    if led:
        return SeeOther(pages.group_url(led[0].policy_slug, led[0].uid))
    return render(request, "dashboard/group/none.html", {"crumbs": [{"label": _("My group")}]})


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """Where somebody begins: leads with their group, everybody else with the overview."""
    led = list_led_groups(at=clock.now(), actor=actor_of(request))
    return SeeOther(reverse("dashboard:my-group" if led else "dashboard:overview"))


@require_http_methods(["GET", "HEAD", "POST"])
def group(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """POST changes what is typed, shows its effect, or publishes it; only the last writes."""
    if request.method != "POST":
        return pages.show(request, pages.open_group(request, policy, uid))
    step = request.POST.get("step", "")
    found = pages.work_out(request, policy, uid, _typed(request, policy, uid, step))
    if step != "publish":
        return pages.show(request, found)
    return _publish(request, found)


@require_http_methods(["GET", "HEAD", "POST"])
@fragment(pages.page_url)
def form(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The table again, after a button that changes what is typed. Writes nothing."""
    typed = _typed(request, policy, uid, request.POST.get("step", ""))
    found = pages.work_out(request, policy, uid, typed)
    return _announced(render(request, "dashboard/group/_form.html", pages.context_of(request, found)), found)


@require_http_methods(["GET", "HEAD", "POST"])
@fragment(pages.page_url)
def effect(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Only the cells that follow from what is typed, while somebody types. Writes nothing."""
    typed = _typed(request, policy, uid, "")
    found = pages.work_out(request, policy, uid, typed)
    return _announced(render(request, "dashboard/group/_effect.html", pages.context_of(request, found)), found)


@require_safe
@fragment(pages.page_url)
def ask_effect(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The target that an amount would make; asked for while somebody types it."""
    found = pages.open_group(request, policy, uid)
    typed = AskForm(request.GET)
    context: dict[str, Any] = {"group": found.page.group, "parent": found.page.parent}
    typed.is_valid()
    if "amount" in typed.errors or "until" in typed.errors:
        wrong = typed.errors.as_data().get("amount") or typed.errors.as_data()["until"]
        context |= {"ask_problem": wrong[0].messages[0], "ask_code": wrong[0].code}
    else:
        try:
            operations = plan_request(
                policy_slug=policy, entry_uid=uid, **typed.wish, at=clock.now(), actor=actor_of(request)
            )
            after = preview_request(policy_slug=policy, uid=uid, operations=operations, actor=actor_of(request))
            context["ask_target"] = after
        except DomainError as error:
            context |= {"ask_problem": error.message, "ask_code": error.code}
    return render(request, "dashboard/group/_ask_effect.html", context)


@require_POST
def ask(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Send a request upward."""
    found = pages.open_group(request, policy, uid)
    typed = AskForm(request.POST)
    if not typed.is_valid():
        return pages.show(request, found, status=422, ask=typed)
    try:
        ask_upward(
            policy_slug=policy,
            entry_uid=uid,
            **typed.wish,
            reason=typed.cleaned_data["reason"],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        status = status_of(error)
        return pages.show(request, found, status=status, ask=typed, ask_refusal=error)
    messages.success(request, _("Submitted to the managers above, with usage and effect."))
    return SeeOther(f"{pages.group_url(policy, uid)}#ask")


@require_POST
def undo(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Take back a change of this group."""
    number = read_number(request.POST.get("number", "")) or 0
    found = pages.open_group(request, policy, uid)
    try:
        revision = undo_division(
            policy_slug=policy, entry_uid=uid, number=number, at=clock.now(), actor=actor_of(request)
        )
    except (Invalid, Conflict) as error:
        return pages.show(request, found, status=409, refusal=error.message)
    messages.success(
        request,
        _("Revision %(undone)s is undone, as revision %(n)s.") % {"undone": number, "n": revision.number},
    )
    return SeeOther(pages.group_url(policy, uid))


def _typed(request: HttpRequest, policy: str, uid: UUID, step: str) -> GroupInput:
    members = load_members(policy_slug=policy, uid=uid, at=clock.now(), actor=actor_of(request))
    typed = read_group(request.POST, members)
    take_step(typed, step, timezone.localdate(clock.now()))
    return typed


def _publish(request: HttpRequest, found: pages.Found) -> HttpResponse:
    policy, uid, typed = found.page.policy_slug, found.page.group.uid, found.typed
    if not typed.reason.strip():
        typed.refuse("reason", _("Enter a reason: it is shown in the history to those affected."), "required")
    if typed.problems:
        return pages.show(request, found, status=422)
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
        pages.tell(typed, error)
        return pages.show(request, found, status=422)
    except Conflict as error:
        return pages.show(request, found, status=409, conflict=error)
    if done.revision is None:
        messages.warning(request, _("Submitted for publishing. %(why)s") % {"why": done.why})
    else:
        text = _("Published as revision %(n)s. Priorities follow with the next recompute, usually within a minute.")
        messages.success(request, text % {"n": done.revision.number})
    return SeeOther(pages.group_url(policy, uid))


def _announced(response: HttpResponse, found: pages.Found) -> HttpResponse:
    n = found.n_changes
    words = ngettext("%(n)s unpublished change", "%(n)s unpublished changes", n) % {"n": n}
    response["HX-Trigger"] = json.dumps({"announce": words})
    return response
