"""Cards of My priority about the future: when the priority recovers, and each level of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.contrib.forecast.figures import SHARE, read_share
from apps.contrib.forecast.outlook import outlook_of
from apps.contrib.forecast.selectors import Forecast, ForecastLevel, get_my_forecast
from apps.core import clock
from apps.core.addresses import split_address
from apps.core.errors import Invalid
from apps.explain.verdict import when_of
from apps.pages.my_priority.account_choice import account_of_card, page_url
from apps.pages.my_priority.cards import NUMBERS, answer_card
from apps.pages.my_priority.figure_requests import frame_of, read_account
from apps.priorities.sentences import numbers
from apps.web.shell.requests import actor_of

_LONGEST_TYPED_SHARE = 200


@dataclass(frozen=True, slots=True)
class LevelLine:
    """One level in a sentence. decides: it is the main reason."""

    text: str
    decides: bool


@dataclass(frozen=True)
class ForecastCard:
    """The form below the curve. share: as typed; problem: why it is invalid."""

    policy: str
    entry: str
    levels: Sequence[LevelLine]
    pace: str
    share: str
    problem: str = ""

    @property
    def is_scenario(self) -> bool:
        return bool(self.share) and not self.problem


def card_of(forecast: Forecast, *, share: str, problem: str) -> ForecastCard | None:
    """The card of a forecast, None if there is nothing to show."""
    shown = forecast.shown
    if shown is None:
        return None
    deciding = None if forecast.deciding is None else forecast.levels[forecast.deciding]
    return ForecastCard(
        policy=forecast.policy.slug,
        entry=str(forecast.entry_uid),
        pace=_pace(shown),
        share=share,
        problem=problem,
        levels=[LevelLine(each.sentence, each is deciding) for each in forecast.levels],
    )


def _pace(shown: ForecastLevel) -> str:
    """Source of the assumed pace of usage, in one line; "" without a forecast."""
    if shown.outlook is None or not shown.n_days:
        return ""
    facts = {
        "days": ngettext("the last day", "the last %(n)s days", shown.n_days) % {"n": shown.n_days},
        "name": shown.name,
        "parent": shown.parent_name,
        "share": numbers.percent(shown.outlook.share_seen),
    }
    if shown.outlook.share_seen is None:
        return _("%(parent)s had no usage in %(days)s.") % facts
    return _("%(name)s took %(share)s of the usage of %(parent)s in %(days)s.") % facts


def forecast_card(request: HttpRequest, policy: str, entry: UUID) -> tuple[ForecastCard | None, Forecast | None]:
    """The card at the pace in the query string, and its forecast; None if the account has none."""
    share, typed, problem = _share(request)
    forecast = get_my_forecast(
        policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now(), share=share
    )
    return None if forecast is None else card_of(forecast, share=typed, problem=problem), forecast


def _share(request: HttpRequest) -> tuple[float | None, str, str]:
    """The assumed pace 0..1, the percentage as typed, and why it is invalid."""
    typed = request.GET.get(SHARE, "")[:_LONGEST_TYPED_SHARE].strip()
    try:
        return read_share(typed), typed, ""
    except Invalid as error:
        return None, typed, error.message


@require_safe
def when(request: HttpRequest) -> HttpResponse:
    """When the account is ahead, or no longer: the sentence of the answer that waits for a forecast."""
    account, _known = account_of_card(request, None)
    sentences = [] if account is None else when_of(account, partial(outlook_of, account))
    return answer_card(request, "contrib/forecast/_when.html", {"when": sentences}, title=_("When"))


@require_safe
def forecast(request: HttpRequest) -> HttpResponse:
    """`?policy=` and `?entry=` choose the account, `?share=` another pace in percent."""
    policy, entry = read_account(request)
    request.GET = state = _state_of_page(request)  # type: ignore[assignment]  # it is only read from here on
    card, _forecast = forecast_card(request, policy, entry)
    if (
        card is not None and card.problem and request.headers.get("HX-Target") != "later-forecast"
    ):  # at its field, which is in another card
        response = _answer_levels(request, card, status=422)
        response["HX-Retarget"] = "#forecast-levels"
        return response
    context = {"forecast": card, "frame": card and frame_of(request, "forecast", policy, entry)}
    response = answer_card(request, "contrib/forecast/_forecast.html", context, title=_("Forecast"))
    if request.headers.get("HX-Target") == "forecast":
        response["HX-Push-Url"] = f"{page_url()}?{state.urlencode()}"
    return response


@require_safe
def forecast_levels(request: HttpRequest) -> HttpResponse:
    """The forecast of every level in a sentence, and the form for another pace."""
    policy, entry = read_account(request)
    card, _forecast = forecast_card(request, policy, entry)
    return _answer_levels(request, card)


def _answer_levels(request: HttpRequest, card: ForecastCard | None, status: int = 200) -> HttpResponse:
    template, title = "contrib/forecast/_forecast_levels.html", _("Forecast by level")
    return answer_card(request, template, {"forecast": card}, title=title, status=status)


def _state_of_page(request: HttpRequest) -> QueryDict:
    """Query string of the page with the values of this form."""
    state = QueryDict(split_address(request.headers.get("HX-Current-URL", "")).query, mutable=True)
    for name, values in request.GET.lists():
        state.setlist(name, values)
    state.pop(NUMBERS, None)
    return state
