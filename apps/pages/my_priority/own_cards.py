"""The cards of *My priority* that are not of a plug-in: where they are, and their fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from apps.core.errors import DomainError, NotFound
from apps.explain.my_priority import MyPriority, list_viewers
from apps.mapping import claims
from apps.pages.my_priority.account_choice import account_of_card, page_url
from apps.pages.my_priority.cards import NUMBERS, MyCard, answer_card
from apps.pages.my_priority.figure_requests import frame_of, read_account
from apps.pages.my_priority.trend import trend_of
from apps.priorities.charges import list_newest_charges
from apps.web.changes.claim_form import ClaimForm
from apps.web.listings.charge_listing import CHARGES, unit_of
from apps.web.listings.listing import table_of
from apps.web.shell import time_travel
from apps.web.shell.requests import actor_of
from apps.web.texts.account_explanation import build_account_explanation

_NEWEST_CHARGES = 5


def _has_rank(account: MyPriority, _known: Sequence[MyPriority]) -> bool:
    return account.rank is not None


def _figure(order: int, figure: str, title: Any, note: Any, height: Any) -> MyCard:
    return MyCard(
        place="more",
        order=order,
        route="my-priority-figure",
        names={"name": figure},
        anchor=f"fig-{figure}",
        title=title,
        note=note,
        height=height,
    )


CARDS = (
    MyCard(
        place="answer",
        order=10,
        route="my-priority-trend",
        anchor="trend",
        title=gettext_lazy("Rank, last 30 days"),
        height="trend",
        is_early=True,
        follows_numbers=True,
        is_shown=_has_rank,
    ),
    _figure(10, "rank", gettext_lazy("Rank over time"), gettext_lazy("by day, with revisions"), "figure"),
    _figure(20, "places", gettext_lazy("Distribution"), gettext_lazy("all factors, and yours"), "small-figure"),
    _figure(50, "waits", gettext_lazy("Queue time"), gettext_lazy("median wait by day, and balance"), "small-figure"),
    MyCard(
        place="more",
        order=60,
        route="my-priority-charges",
        anchor="charges",
        title=gettext_lazy("My jobs"),
        note=gettext_lazy("the newest, with what each counts"),
        height="rows",
        follows_numbers=True,
    ),
    MyCard(
        place="more",
        order=70,
        route="my-priority-why",
        anchor="why",
        title=gettext_lazy("Compare"),
        note=gettext_lazy("why another user is ahead or behind"),
        height="search",
        of_past=True,
        is_shown=_has_rank,
    ),
    MyCard(
        place="more",
        order=80,
        route="my-priority-back",
        anchor="back",
        title=gettext_lazy("Look back"),
        note=gettext_lazy("this page on another day"),
        height="text",
    ),
    MyCard(
        place="more",
        order=90,
        route="my-priority-details",
        anchor="details",
        title=gettext_lazy("Technical details"),
        note=gettext_lazy("values sent to schedulers, all levels"),
        height="rows",
        follows_numbers=True,
        of_past=True,
    ),
    MyCard(
        place="more",
        order=100,
        route="my-priority-accounts",
        anchor="accounts",
        title=gettext_lazy("My accounts"),
        note=gettext_lazy("names that your jobs run under; claim another"),
        height="text",
        of_unmapped=True,
    ),
    MyCard(
        place="more",
        order=110,
        route="my-priority-viewers",
        anchor="viewers",
        title=gettext_lazy("What others see about you"),
        note=gettext_lazy("by role"),
        height="text",
    ),
)


@require_safe
def trend(request: HttpRequest) -> HttpResponse:
    """The rank of the last days, drawn beside the answer."""
    policy, entry = read_account(request)
    context = {"trend": trend_of(request, policy, entry)}
    return answer_card(request, "pages/my_priority/_trend.html", context, title=_("Rank, last 30 days"))


@require_safe
def figure(request: HttpRequest, name: str) -> HttpResponse:
    """The frame of a figure; other parameters than the account are the state of the page."""
    policy, entry = read_account(request)
    frame = frame_of(request, name, policy, entry)
    return answer_card(request, "web/_figure.html", {"frame": frame}, title=frame.figure.title)


@require_safe
def charges(request: HttpRequest) -> HttpResponse:
    """The user's jobs that started last, with the charge of each."""
    policy = request.GET.get("policy", "")
    jobs, unit = None, ""
    try:
        page = list_newest_charges(policy_slug=policy, limit=_NEWEST_CHARGES, actor=actor_of(request))
        jobs, unit = table_of(CHARGES, page.jobs, "card"), unit_of(page.settings)
    except NotFound:
        raise
    except DomainError:
        pass  # nothing has been computed yet
    context = {"charges": {"jobs": jobs, "unit": unit}, "policy_slug": policy}
    return answer_card(request, "pages/my_priority/_charges.html", context, title=_("My jobs"))


@require_safe
def accounts(request: HttpRequest) -> HttpResponse:
    """Accounts and claims of the reader, and the form to claim another."""
    return answer_accounts(request, ClaimForm())


def answer_accounts(request: HttpRequest, form: ClaimForm, status: int = 200) -> HttpResponse:
    context = {"my_accounts": claims.list_my_accounts(actor=actor_of(request)), "claim_form": form}
    return answer_card(request, "pages/my_priority/_accounts.html", context, title=_("My accounts"), status=status)


@require_safe
def back(request: HttpRequest) -> HttpResponse:
    """The slider over past days, whose choice opens the page."""
    days = time_travel.look_back(request, request.GET.get("policy", ""))
    if days is not None:  # the page that is opened has numbers of its own
        days = replace(days, kept=[(name, value) for name, value in days.kept if name != NUMBERS])
    context = {"look_back": days, "back_url": page_url()}
    return answer_card(request, "pages/my_priority/_back.html", context, title=_("Look back"))


@require_safe
def details(request: HttpRequest) -> HttpResponse:
    """The numbers behind the answer: all levels, and what schedulers get."""
    at = time_travel.read_moment_param(request)
    account, _known = account_of_card(request, at)
    if account is None or account.error:
        raise NotFound("There is no such account in this policy.")
    context = {"story": build_account_explanation(account), "mine": account}
    return answer_card(request, "pages/my_priority/_details.html", context, title=_("Technical details"))


@require_safe
def viewers(request: HttpRequest) -> HttpResponse:
    """What colleagues, role holders and administrators see of the user's entry."""
    account, _known = account_of_card(request, None)
    if account is None:
        raise NotFound("There is no such account in this policy.")
    seen = list_viewers(account, actor=actor_of(request))
    return answer_card(request, "pages/my_priority/_viewers.html", {"seen": seen}, title=_("What others see about you"))
