"""Shares of a scheduler that keeps its own fair share: reviewed, sent, put back, taken over."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, Stale
from apps.dashboard.schedulers import presenters
from apps.dashboard.shell import presentation
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.schedulers import selectors, share_orders
from apps.schedulers.models import Scheduler, ShareOrder
from apps.schedulers.selectors import get_share_difference, list_share_orders

MOST_ROWS = 200
_ORDERS = 10
_REFUSALS = (Invalid, Conflict, Stale)


@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: HttpRequest, name: str) -> HttpResponse:
    """`to`: send, put-back, take-over or cancel; the tag says which lines were reviewed."""
    scheduler = selectors.get_scheduler(name=name, at=clock.now(), actor=actor_of(request)).scheduler
    problem = None
    if request.method == "POST":
        try:
            return SeeOther(_done(request, scheduler))
        except _REFUSALS as refusal:
            problem = refusal
    return _page(request, scheduler, problem)


def _done(request: HttpRequest, scheduler: Scheduler) -> str:
    """Does what was asked for; where to go on."""
    asked: dict[str, Any] = {"name": scheduler.name, "at": clock.now(), "actor": actor_of(request)}
    to, tag = request.POST.get("to", ""), request.POST.get("tag", "")
    if to == "cancel":
        number = request.POST.get("order", "")
        share_orders.cancel_share_order(order_id=int(number) if number.isdecimal() and len(number) < 19 else 0, **asked)
        messages.success(request, _("The order is cancelled."))
    elif to == "send":
        _say_ordered(request, share_orders.order_shares(tag=tag, **asked))
    elif to in ("put-back", "take-over"):
        found = get_share_difference(**asked)
        places = [int(one) for one in request.POST.getlist("line") if one.isdecimal() and len(one) < 9]
        by_hand = found.by_hand if found is not None else []
        keys = [by_hand[place].key for place in places if place < len(by_hand)]
        if to == "put-back":
            _say_ordered(request, share_orders.order_shares(tag=tag, put_back=keys, **asked))
        else:
            draft = share_orders.take_over_shares(tag=tag, keys=keys, **asked)
            messages.success(request, _("The shares are in your draft: publish it."))
            return reverse("dashboard:change", kwargs={"change_set": draft.pk})
    else:
        raise Invalid(_("There is: %(names)s.") % {"names": "send, put-back, take-over, cancel"})
    return reverse("dashboard:scheduler-shares", kwargs={"name": scheduler.name})


def _say_ordered(request: HttpRequest, order: ShareOrder) -> None:
    n = len(order.lines)
    text = ngettext("%(n)s share is set in the agent’s next pass.", "%(n)s shares are set in the agent’s next pass.", n)
    messages.success(request, text % {"n": presentation.count(n)})


def _page(request: HttpRequest, scheduler: Scheduler, problem: DomainError | None) -> HttpResponse:
    asked: dict[str, Any] = {"name": scheduler.name, "at": clock.now(), "actor": actor_of(request)}
    found = get_share_difference(**asked)
    orders = list_share_orders(limit=_ORDERS, **asked)
    context = {
        "scheduler": scheduler,
        "found": found,
        "headline": presenters.shares_headline(scheduler, found),
        "to_send": found.to_send[:MOST_ROWS] if found else [],
        "by_hand": found.by_hand[:MOST_ROWS] if found else [],
        "most": MOST_ROWS,
        "open": next((one for one in orders if one.state == ShareOrder.State.OPEN), None),
        "orders": [presenters.share_order_line(one) for one in orders],
        "sets": scheduler.carries == Scheduler.Carries.SHARES and scheduler.mode == Scheduler.Mode.ON,
        "problem": problem,
        "crumbs": [
            {"label": _("Schedulers"), "url": reverse("dashboard:schedulers")},
            {"label": scheduler.name, "url": reverse("dashboard:scheduler", kwargs={"name": scheduler.name})},
            {"label": _("Shares")},
        ],
    }
    status = 200 if problem is None else 412 if isinstance(problem, Stale) else 422
    return render(request, "dashboard/schedulers/shares.html", context, status=status)
