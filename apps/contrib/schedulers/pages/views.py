"""Pages to connect, monitor, pause, change and remove schedulers, and to set a scheduler's own shares."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agent.build import build
from apps.contrib.jobs.gateway.selectors import has_ledger
from apps.contrib.schedulers import selectors, services, share_orders
from apps.contrib.schedulers.following import follow_scheduler, get_changes
from apps.contrib.schedulers.lag import list_pass_lags
from apps.contrib.schedulers.models import Scheduler, ShareOrder
from apps.contrib.schedulers.orders import orders_of, tag_of
from apps.contrib.schedulers.pages import forms, presenters, share_rows
from apps.contrib.schedulers.pages.connecting import managed_policies
from apps.contrib.schedulers.pages.forms import SchedulerForm
from apps.contrib.schedulers.pages.lag_figure import lag_figure
from apps.contrib.schedulers.pages.overview import headline, kpis, load_overview, passes_title
from apps.contrib.schedulers.selectors import SchedulerView, get_share_difference, list_share_orders
from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, Stale
from apps.core.typed_numbers import read_whole
from apps.pages.help.terminal import program_answer
from apps.policies.selectors import list_policies
from apps.priorities.sentences import numbers
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of

_REFUSALS = (Invalid, Conflict, Stale)
_PASSES = 30
_SWITCHES: dict[str, Callable[..., Scheduler]] = {
    "pause": services.pause_scheduler,
    "resume": services.resume_scheduler,
    "reset-values": services.request_reset,
}
MOST_DIFFERENCE_ROWS = 200
_ORDERS = 10


@require_safe
def schedulers(request: HttpRequest) -> HttpResponse:
    """List the schedulers of the policies that the actor manages; an administrator may have none yet."""
    policies = [] if _begins(request) else managed_policies(request)
    scheduler_views = selectors.list_schedulers(at=clock.now(), actor=actor_of(request))
    lines = [presenters.line_of(view) for view in scheduler_views]
    context = {
        "lines": lines,
        "headline": presenters.headline(lines),
        "policies": policies,
        "crumbs": [{"label": _("Schedulers")}],
    }
    return render(request, "contrib/schedulers/schedulers.html", context)


@require_safe
def scheduler(request: HttpRequest, name: str) -> HttpResponse:
    """Whether a scheduler follows, how old its values are, what would change, and how to install its agent."""
    at, actor = clock.now(), actor_of(request)
    view = selectors.get_scheduler(name=name, at=at, actor=actor)
    scheduler = view.scheduler
    overview = load_overview(view, at=at, actor=actor)
    passes = selectors.list_passes(name=name, limit=_PASSES, at=at, actor=actor)
    others = [other for other in selectors.list_schedulers(at=at, actor=actor) if other.scheduler.pk != scheduler.pk]
    checks = presenters.check_lines(scheduler)
    figure = reverse("pages:scheduler-lag", kwargs={"name": name})
    context = {
        "scheduler": scheduler,
        "orders": orders_of(scheduler),
        "line": presenters.line_of(view),
        "overview": overview,
        "headline": headline(overview),
        "kpis": kpis(overview, at),
        "lag": framed(request, figure, lambda: lag_figure(scheduler, overview.passes, at)),
        "passes_title": passes_title(overview.passes),
        "others": [presenters.line_of(other) for other in others],
        "passes": [presenters.pass_line(agent_pass) for agent_pass in passes],
        "checks": checks,
        "restored_lines": presenters.restored_lines(scheduler),
        "n_to_change": sum(check.shade != "ok" for check in checks),
        "reset_command": presenters.reset_command(scheduler),
        "tag": tag_of(scheduler),
        "has_ledger": has_ledger(scheduler.policy.slug),
        "crumbs": _crumbs(scheduler.name),
    }
    return render(request, "contrib/schedulers/scheduler.html", context)


@require_safe
def lag(request: HttpRequest, name: str, form: str = "json") -> HttpResponseBase:
    """Figure of the lag in the last 24 hours."""
    scheduler, at = _view(request, name).scheduler, clock.now()
    return answer_figure(request, lag_figure(scheduler, list_pass_lags(scheduler, at), at), form)


@require_http_methods(["GET", "HEAD", "POST"])
def change_settings(request: HttpRequest, name: str) -> HttpResponse:
    """Change the settings of a scheduler; `tag` identifies the state that the page showed."""
    scheduler = _view(request, name).scheduler
    if request.method != "POST":
        return _form(request, SchedulerForm(initial=forms.initial_of(scheduler), policies=[]), scheduler)
    form = SchedulerForm(request.POST, policies=[])
    if form.is_valid():
        try:
            tag = read_action(request).tag
            services.change_scheduler(
                name=name, tag=tag, settings=form.settings(), at=clock.now(), actor=actor_of(request)
            )
        except _REFUSALS as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, _("Saved"))
            return SeeOther(_url(name))
    return _form(request, form, scheduler, status=form.status)


@require_POST
def switch(request: HttpRequest, name: str) -> HttpResponse:
    """Pause or resume a scheduler, or hand priorities back to it, as the button `to` says."""
    _view(request, name)
    service = _SWITCHES.get(read_action(request, "to").step)
    if service is None:
        raise Invalid(_("There is: %(names)s.") % {"names": ", ".join(_SWITCHES)})
    service(name=name, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Saved"))
    return SeeOther(_url(name))


@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, name: str) -> HttpResponse:
    """Remove a scheduler, with a reason; values that its agent has set stay in the scheduler."""
    scheduler = _view(request, name).scheduler
    context: dict[str, Any] = {
        "scheduler": scheduler,
        "tag": tag_of(scheduler),
        "restored_lines": presenters.restored_lines(scheduler),
        "crumbs": _crumbs(scheduler.name, _("Remove")),
    }
    if request.method == "POST":
        action = read_action(request)
        try:
            services.remove_scheduler(
                name=name, tag=action.tag, reason=action.reason, at=clock.now(), actor=actor_of(request)
            )
        except _REFUSALS as refusal:
            status = 412 if isinstance(refusal, Stale) else 422
            context |= {"problem": refusal.message, "reason": action.reason}
            return render(request, "contrib/schedulers/remove.html", context, status=status)
        messages.success(request, _("Removed"))
        return SeeOther(reverse("pages:schedulers"))
    return render(request, "contrib/schedulers/remove.html", context)


def _callout() -> bytes:
    return Path(settings.BASE_DIR, "terminal", "fairshare_callout.py").read_bytes()


_PROGRAMS: dict[str, tuple[Callable[[], bytes], str]] = {
    "fairshare-agent.pyz": (build, "application/zip"),
    "fairshare-callout.py": (_callout, "text/x-python"),
}


@lru_cache(maxsize=len(_PROGRAMS))
def program_file(name: str) -> tuple[bytes, str]:
    """A program as one file that Python runs, and its SHA-256."""
    content = _PROGRAMS[name][0]()
    return content, hashlib.sha256(content).hexdigest()


@login_not_required  # scheduler hosts download it without a session; the file contains no data of this site
@require_safe
def program(request: HttpRequest, name: str) -> HttpResponse:
    content, digest = program_file(name)
    return program_answer(request, content, digest, name=name, content_type=_PROGRAMS[name][1])


def _begins(request: HttpRequest) -> bool:
    """Whether the actor sets up a site that has no policy yet."""
    actor = actor_of(request)
    return actor.is_admin and not list_policies(actor=actor)


def _view(request: HttpRequest, name: str) -> SchedulerView:
    return selectors.get_scheduler(name=name, at=clock.now(), actor=actor_of(request))


def _url(name: str) -> str:
    return reverse("pages:scheduler", kwargs={"name": name})


def _crumbs(name: str, last: str = "") -> list[dict[str, str]]:
    crumbs = [{"label": _("Schedulers"), "url": reverse("pages:schedulers")}, {"label": name, "url": _url(name)}]
    return [*crumbs, {"label": last}] if last else [crumbs[0], {"label": name}]


def _form(request: HttpRequest, form: SchedulerForm, scheduler: Scheduler, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "scheduler": scheduler,
        "tag": tag_of(scheduler),
        "about": [form[name] for name in forms.ABOUT],
        "sent": [form[name] for name in forms.SENT],
        "bounds": [form[name] for name in forms.BOUNDS],
        "crumbs": _crumbs(scheduler.name, _("Settings")),
    }
    return render(request, "contrib/schedulers/form.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: HttpRequest, name: str) -> HttpResponse:
    """Compare the scheduler's shares with the policy's; POST runs the action of the button `to`.

    send: set all differences. put-back: overwrite the chosen manual changes. take-over: add them to a draft.
    follow: a draft of the scheduler's accounts and users, without its shares. cancel: cancel an order.
    `tag` identifies the lines that the page showed.
    """
    scheduler = selectors.get_scheduler(name=name, at=clock.now(), actor=actor_of(request)).scheduler
    problem = None
    if request.method == "POST":
        try:
            return SeeOther(_change_shares(request, scheduler))
        except _REFUSALS as refusal:
            problem = refusal
    return _shares_page(request, scheduler, problem)


def _change_shares(request: HttpRequest, scheduler: Scheduler) -> str:
    """Run the posted action; return the URL to redirect to."""
    common: dict[str, Any] = {"name": scheduler.name, "at": clock.now(), "actor": actor_of(request)}
    action = read_action(request, "to")
    to, tag = action.step, action.tag
    if to == "cancel":
        order_id = read_whole(request.POST.get("order", "")) or 0
        share_orders.cancel_share_order(order_id=order_id, **common)
        messages.success(request, _("Cancelled"))
    elif to == "send":
        _report_order(request, share_orders.order_shares(tag=tag, **common))
    elif to in ("put-back", "take-over"):
        difference = get_share_difference(**common)
        lines = [read_whole(text, 8) for text in request.POST.getlist("line")]
        by_hand = difference.by_hand if difference is not None else []
        keys = [by_hand[i].key for i in lines if i is not None and i < len(by_hand)]
        if to == "put-back":
            _report_order(request, share_orders.order_shares(tag=tag, put_back=keys, **common))
        else:
            draft = share_orders.take_over_shares(tag=tag, keys=keys, **common)
            messages.success(request, _("The shares are in your draft: publish it."))
            return reverse("pages:change", kwargs={"change_set": draft.pk})
    elif to == "follow":
        change_set = follow_scheduler(**common).change_set
        if change_set is not None:
            return reverse("pages:policy-file", kwargs={"policy": scheduler.policy.slug, "change_set": change_set.pk})
        messages.info(request, _("Nothing to change: the policy has the scheduler’s accounts and users."))
    else:
        raise Invalid(_("There is: %(names)s.") % {"names": "send, put-back, take-over, follow, cancel"})
    return reverse("pages:scheduler-shares", kwargs={"name": scheduler.name})


def _report_order(request: HttpRequest, order: ShareOrder) -> None:
    n = len(order.lines)
    text = ngettext("%(n)s share is set in the agent’s next pass.", "%(n)s shares are set in the agent’s next pass.", n)
    messages.success(request, text % {"n": numbers.count(n)})


def _shares_page(request: HttpRequest, scheduler: Scheduler, problem: DomainError | None) -> HttpResponse:
    common: dict[str, Any] = {"name": scheduler.name, "at": clock.now(), "actor": actor_of(request)}
    difference = get_share_difference(**common)
    orders = list_share_orders(limit=_ORDERS, **common)
    context = {
        "scheduler": scheduler,
        "difference": difference,
        "headline": share_rows.shares_headline(scheduler, difference),
        "to_send": difference.to_send[:MOST_DIFFERENCE_ROWS] if difference else [],
        "by_hand": difference.by_hand[:MOST_DIFFERENCE_ROWS] if difference else [],
        "most": MOST_DIFFERENCE_ROWS,
        "followed": share_rows.followed_lines(get_changes(**common)),
        "open": next((order for order in orders if order.state == ShareOrder.State.OPEN), None),
        "orders": [share_rows.share_order_line(order) for order in orders],
        "sets": scheduler.carries == Scheduler.Carries.SHARES and scheduler.mode == Scheduler.Mode.ON,
        "problem": problem,
        "crumbs": [
            {"label": _("Schedulers"), "url": reverse("pages:schedulers")},
            {"label": scheduler.name, "url": reverse("pages:scheduler", kwargs={"name": scheduler.name})},
            {"label": _("Shares")},
        ],
    }
    status = 200 if problem is None else 412 if isinstance(problem, Stale) else 422
    return render(request, "contrib/schedulers/shares.html", context, status=status)
