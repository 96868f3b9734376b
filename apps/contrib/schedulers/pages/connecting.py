"""Connect a scheduler in three steps: its kind and name, one command for its host, and turning it on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from apps.contrib.schedulers import services
from apps.contrib.schedulers.agent_tokens import MadeToken, connect_with_token, make_agent_token, may_make_tokens
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.orders import tag_of
from apps.contrib.schedulers.pages import forms, presenters
from apps.contrib.schedulers.pages.first_report import COMMAND, FIRST, TURN_ON, first_report
from apps.contrib.schedulers.pages.forms import ConnectForm
from apps.contrib.schedulers.selectors import SchedulerView, get_scheduler
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, Stale
from apps.pages.tokens.confirmation import has_confirmed
from apps.pages.tokens.forms import ConfirmForm
from apps.pages.tokens.tickets import make_ticket
from apps.policies.access.managers import manages
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.shell.sign_in_state import asks_password

_REFUSALS = (Invalid, Conflict, Stale)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Step 1: kind and name. The answer to an administrator's POST is step 2 with the new token, shown once."""
    policies, actor = managed_policies(request), actor_of(request)
    confirms = may_make_tokens(actor)
    how: dict[str, Any] = {"policies": policies, "confirms": confirms, "asks_password": asks_password(request)}
    if request.method != "POST":
        chosen = request.GET.get("policy", policies[0].slug)
        return _new_form(
            request,
            ConnectForm(initial={**forms.default_values(), "policy": chosen, "knob": "", "kind": "slurm"}, **how),
        )
    form = ConnectForm(request.POST, **how)
    if not form.is_valid() or not (not confirms or has_confirmed(request, form)):
        return _new_form(request, form, status=422)
    common: dict[str, Any] = {"at": clock.now(), "actor": actor}
    common |= {"policy_slug": form.cleaned_data["policy"], "name": form.cleaned_data["name"]}
    settings = form.settings()
    is_local = settings.get("reach") == Scheduler.Reach.COMMANDS
    try:
        if confirms and not is_local:
            made = connect_with_token(settings=settings, **common)
            return _steps(request, get_scheduler(name=made.scheduler.name, at=common["at"], actor=actor), made=made)
        scheduler = services.connect_scheduler(settings=settings, **common)
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return _new_form(request, form, status=422)
    return SeeOther(_url(name=scheduler.name))


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def connect(request: HttpRequest, name: str) -> HttpResponse:
    """Steps 2 and 3 of one scheduler; POST makes another token, which the answer shows once."""
    actor = actor_of(request)
    view = get_scheduler(name=name, at=clock.now(), actor=actor)
    if request.method != "POST":
        return _steps(request, view)
    if not may_make_tokens(actor):
        raise NotAllowed(_("An administrator makes the command: its token may report for the whole scheduler."))
    form = ConfirmForm(request.POST, asks_password=asks_password(request))
    if not form.is_valid() or not has_confirmed(request, form):
        return _steps(request, view, form=form, status=422)
    made = make_agent_token(name=name, at=clock.now(), actor=actor)
    return _steps(request, view, made=made)


def _url(name: str) -> str:
    return reverse("pages:scheduler-connect", kwargs={"name": name})


@fragment(_url)
@require_safe
def connect_now(request: HttpRequest, name: str) -> HttpResponse:
    """The state while the page waits; at the next step the browser loads the page again."""
    view = get_scheduler(name=name, at=clock.now(), actor=actor_of(request))
    report = first_report(view, at=clock.now(), actor=actor_of(request))
    response = render(request, "contrib/schedulers/_first_report.html", {"scheduler": view.scheduler, "report": report})
    if str(report.step) != request.GET.get("step", "") or not report.waits:
        response["HX-Redirect"] = _url(name)
    return response


def _steps(
    request: HttpRequest,
    view: SchedulerView,
    *,
    made: MadeToken | None = None,
    form: ConfirmForm | None = None,
    status: int = 200,
) -> HttpResponse:
    scheduler, actor = view.scheduler, actor_of(request)
    report = first_report(view, at=clock.now(), actor=actor)
    if made and report.step == TURN_ON:
        report = replace(report, waits=False)  # or the page would go on, and the token with it
    site = request.build_absolute_uri("/").rstrip("/")
    confirms = may_make_tokens(actor)
    context: dict[str, Any] = {
        "scheduler": scheduler,
        "report": report,
        "is_local": scheduler.reach == Scheduler.Reach.COMMANDS,
        "command": presenters.connecting_command(site, scheduler, made.text if made else ""),
        "made": made,
        "confirms": confirms,
        "form": form or (ConfirmForm(asks_password=asks_password(request)) if confirms else None),
        "ticket": make_ticket(request),
        "address": _url(scheduler.name),
        "steps": step_lines(report.step, scheduler),
        "checks": [check for check in presenters.check_lines(scheduler) if check.shade == "bad"],
        "tag": tag_of(scheduler),
        "crumbs": [
            {"label": _("Schedulers"), "url": reverse("pages:schedulers")},
            {"label": scheduler.name, "url": reverse("pages:scheduler", kwargs={"name": scheduler.name})},
            {"label": _("Connect")},
        ],
    }
    return render(request, "contrib/schedulers/connect.html", context, status=status)


def _new_form(request: HttpRequest, form: ConnectForm, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "steps": step_lines(FIRST, None),
        "ticket": make_ticket(request),
        "advanced": [form[name] for name in (*forms.ADVANCED, *forms.BOUNDS)],
        "crumbs": [{"label": _("Schedulers"), "url": reverse("pages:schedulers")}, {"label": _("Connect a scheduler")}],
    }
    return render(request, "contrib/schedulers/new.html", context, status=status)


def step_lines(now: int, scheduler: Scheduler | None) -> list[dict[str, Any]]:
    """The three steps, with the state of each: done, current or ahead."""
    first = f"{scheduler.get_kind_display()}, {scheduler.name}" if scheduler else _("Nothing is sent to it.")
    lines = (
        (FIRST, _("Kind and name"), first),
        (COMMAND, _("One command"), _("On the scheduler’s host.")),
        (TURN_ON, _("Turn on"), _("When you have seen who would move.")),
    )
    return [
        {"title": title, "text": text, "state": "done" if n < now else "current" if n == now else "ahead"}
        for n, title, text in lines
    ]


def managed_policies(request: HttpRequest) -> list[Policy]:
    """Policies that the actor manages; raises NotAllowed if there are none."""
    actor, at = actor_of(request), clock.now()
    policies = [policy for policy in list_policies(actor=actor) if manages(policy, actor, at)]
    if not policies:
        raise NotAllowed(_("Schedulers are visible to managers of a whole policy."))
    return policies
