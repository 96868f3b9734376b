"""The cards of *My priority* that are not of a plug-in: where they are, and their fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from apps.core.errors import DomainError, NotFound
from apps.explain.messages import reason_in_short
from apps.explain.my_priority import MyPriority, list_viewers
from apps.pages.my_priority.account_choice import account_of_card, address_of, chosen_of
from apps.pages.my_priority.cards import MyCard, answer_card
from apps.pages.my_priority.figure_requests import frame_of, read_account
from apps.pages.my_priority.trend import trend_of
from apps.priorities.charges import list_newest_charges
from apps.web.charge_listing import CHARGES, unit_of
from apps.web.listing import table_of
from apps.web.shell import time_travel
from apps.web.shell.requests import actor_of

_NEWEST_CHARGES = 5


def _has_rank(account: MyPriority, _known: Sequence[MyPriority]) -> bool:
    return account.rank is not None


def _has_several(_account: MyPriority, known: Sequence[MyPriority]) -> bool:
    return len(known) > 1


def _figure(order: int, figure: str, title: Any, height: Any) -> MyCard:
    return MyCard(
        place="ahead",
        order=order,
        route="my-priority-figure",
        names={"name": figure},
        anchor=f"fig-{figure}",
        title=title,
        height=height,
    )


CARDS = (
    MyCard(
        place="answer",
        order=10,
        route="my-priority-trend",
        anchor="trend",
        title=gettext_lazy("Rank"),
        height="trend",
        is_early=True,
        follows_numbers=True,
        is_shown=_has_rank,
    ),
    _figure(30, "rank", gettext_lazy("Rank over time"), "figure"),
    _figure(40, "places", gettext_lazy("Distribution of factors"), "small-figure"),
    _figure(50, "waits", gettext_lazy("Queue time and balance"), "small-figure"),
    MyCard(
        place="ahead",
        order=60,
        route="my-priority-charges",
        anchor="charges",
        title=gettext_lazy("Job charges"),
        height="rows",
        follows_numbers=True,
    ),
    MyCard(
        place="ahead",
        order=70,
        route="my-priority-accounts",
        anchor="others",
        title=gettext_lazy("My accounts"),
        height="accounts",
        n_rows=lambda _account, known: len(known),
        follows_numbers=True,
        of_past=True,
        is_shown=_has_several,
    ),
    MyCard(
        place="ahead",
        order=80,
        route="my-priority-viewers",
        anchor="viewers",
        title=gettext_lazy("What others see about you"),
        height="text",
    ),
    MyCard(
        place="side",
        order=40,
        route="my-priority-why",
        anchor="why",
        title=gettext_lazy("Compare"),
        height="search",
        of_past=True,
        is_shown=_has_rank,
    ),
)


@dataclass(frozen=True)
class OtherAccount:
    """A row of the table of accounts."""

    priority: MyPriority
    url: str
    reason: str
    is_shown: bool


@require_safe
def trend(request: HttpRequest) -> HttpResponse:
    """The rank of the last days, drawn beside the answer."""
    policy, entry = read_account(request)
    context = {"trend": trend_of(request, policy, entry)}
    return answer_card(request, "pages/my_priority/_trend.html", context, title=_("Rank"))


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
    return answer_card(request, "pages/my_priority/_charges.html", context, title=_("Job charges"))


@require_safe
def accounts(request: HttpRequest) -> HttpResponse:
    """All accounts of the user, best first."""
    at = time_travel.read_moment_param(request)
    shown, every = chosen_of(request, at)
    rows = [
        OtherAccount(each, address_of(each, at), reason_in_short(each), each is shown)
        for each in every
        if not each.error
    ]
    return answer_card(request, "pages/my_priority/_others.html", {"others": rows}, title=_("My accounts"))


@require_safe
def viewers(request: HttpRequest) -> HttpResponse:
    """What colleagues, role holders and administrators see of the user's entry."""
    account, _known = account_of_card(request, None)
    if account is None:
        raise NotFound("There is no such account in this policy.")
    seen = list_viewers(account, actor=actor_of(request))
    return answer_card(request, "pages/my_priority/_viewers.html", {"seen": seen}, title=_("What others see about you"))
