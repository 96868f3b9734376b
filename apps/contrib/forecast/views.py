"""Cards of My priority about the future: when the priority recovers, and what a changed usage would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.contrib.forecast.entry_forecast import DatedRecovery
from apps.contrib.forecast.figures import SHARE, read_share
from apps.contrib.forecast.selectors import Forecast, ForecastLevel, get_my_forecast
from apps.contrib.forecast.what_if import RankRange, Scenario, ScenarioResult, read_scenario, run_my_scenario
from apps.core import clock
from apps.core.addresses import split_address
from apps.core.errors import Invalid, TooOften
from apps.pages.my_priority.account_choice import page_url
from apps.pages.my_priority.cards import NUMBERS, answer_card
from apps.pages.my_priority.figure_requests import frame_of, read_account
from apps.web.day_on_target import when_text
from apps.web.shell import presentation
from apps.web.shell.requests import actor_of


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
        "share": presentation.percent(shown.outlook.share_seen),
    }
    if shown.outlook.share_seen is None:
        return _("%(parent)s had no usage in %(days)s.") % facts
    return _("%(name)s took %(share)s of the usage of %(parent)s in %(days)s.") % facts


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A value now and in the what-if; equal if nothing changes."""

    key: str
    label: str
    before: str
    after: str

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Preset:
    """An example that fills in the form."""

    label: str
    query: str
    is_chosen: bool


@dataclass(frozen=True)
class WhatIfCard:
    """The what-if form as filled in, its problems and its result. target_now: of the level, in percent."""

    policy: str
    entry: str
    group: str
    levels: Sequence[tuple[str, str]]
    metric: Mapping[str, Any]  # gives the unit in which usage is typed
    typed: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    lines: Sequence[ChangeLine] = ()
    note: str = ""
    is_tried: bool = False
    target_now: str = "0"

    @property
    def presets(self) -> list[Preset]:
        amount = {"n": presentation.count(_PRESET_H), "unit": presentation.hour_unit(self.metric)}
        presets = [
            (_("I pause for a week"), {"core_h": "0", "days": "7"}),
            (_("I use %(n)s %(unit)s") % amount, {"core_h": str(_PRESET_H), "days": "7"}),
        ]
        if self.group:
            presets.append((_("%(group)s halves its load") % {"group": self.group}, {"load": "50"}))
        own = {"policy": self.policy, "entry": self.entry}
        requested = {name: text for name, text in self.typed.items() if text and name != "level"}
        return [Preset(label, urlencode({**own, **fields}), fields == requested) for label, fields in presets]


def outcome_of(tried: ScenarioResult) -> tuple[list[ChangeLine], str]:
    """Values before and after, and the source of the assumed pace."""
    without, changed = tried.without, tried.changed
    lines = [
        ChangeLine("rank_now", _("Rank now"), _rank(without.now, tried.of), _rank(changed.now, tried.of)),
        ChangeLine("rank_then", _("Rank in 7 days"), _rank(without.then, tried.of), _rank(changed.then, tried.of)),
    ]
    if without.then.factor is not None or changed.then.factor is not None:
        lines.append(
            ChangeLine(
                "factor_then",
                _("Factor in 7 days"),
                presentation.factor(without.then.factor),
                presentation.factor(changed.then.factor),
            )
        )
    shown = tried.forecast.shown
    if shown is not None and without.back is not None and changed.back is not None:
        lines.append(target_line(tried.scenario, shown, without.back, changed.back))
    basis = {
        "last_days": _("All others continue as in the last two weeks."),
        "present_usage": _("All others continue at the pace of their present usage."),
    }
    note = basis[tried.basis]
    return lines, note if without.then.is_exact else note + " " + _("Ranks are rounded to 5 for privacy.")


def _rank(place: RankRange, of: int) -> str:
    if place.rank is None:
        return presentation.UNKNOWN
    first, last = place.rank[0], min(place.rank[1], max(of, place.rank[0]))
    if first == last:
        return presentation.count(first)
    return _("%(first)s to %(last)s") % {"first": presentation.count(first), "last": presentation.count(last)}


def target_line(
    scenario: Scenario, shown: ForecastLevel, back: DatedRecovery, back_changed: DatedRecovery
) -> ChangeLine:
    """When the level reaches its target; for a level below it, until when it stays below."""
    before, after = when_text(back.outcome, back.at), when_text(back_changed.outcome, back_changed.at)
    words = {"name": shown.name}
    actual, target = shown.actual, shown.target
    if scenario.target is not None or actual is None or target is None or actual >= target:
        is_over = scenario.target is None and actual is not None  # with a changed target it may be on either side
        key = "back_at_target" if is_over else "at_target"
        return ChangeLine(key, _("%(name)s at its target") % words, before, after)
    before, after = (
        words_of if each.at or each.outcome == "on_target" else _("no end")
        for each, words_of in ((back, before), (back_changed, after))
    )
    return ChangeLine("under_until", _("%(name)s under its target until") % words, before, after)


_FIELDS = ("core_h", "days", "load", "level", "target")
_MOST_TYPED = 200
_PRESET_H = 1000


def forecast_card(request: HttpRequest, policy: str, entry: UUID) -> tuple[ForecastCard | None, Forecast | None]:
    """The card at the pace in the query string, and its forecast; None if the account has none."""
    share, typed, problem = _share(request)
    forecast = get_my_forecast(
        policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now(), share=share
    )
    return None if forecast is None else card_of(forecast, share=typed, problem=problem), forecast


def what_if_card(request: HttpRequest, policy: str, entry: UUID, forecast: Forecast | None) -> WhatIfCard | None:
    """The form, and its result if a change is assumed. forecast: the account's forecast."""
    if forecast is None or not forecast.levels:
        return None
    typed = {name: request.GET.get(name, "")[:_MOST_TYPED] for name in _FIELDS}
    levels = [(str(each.uid), each.name) for each in forecast.levels if each.target is not None]
    group = forecast.levels[-1].parent_name if len(forecast.levels) > 1 else ""
    level = next((each for each in forecast.levels if str(each.uid) == typed["level"]), forecast.levels[0])
    target_now = f"{100 * (level.target or 0.0):.1f}"
    card = WhatIfCard(
        policy, str(entry), group, levels, forecast.snapshot.settings.metric, typed, target_now=target_now
    )
    try:
        requested = read_scenario(typed)
        if requested.is_empty:
            return card
        tried = run_my_scenario(
            policy_slug=policy, entry_uid=entry, scenario=requested, actor=actor_of(request), at=clock.now()
        )
    except Invalid as error:
        return replace(
            card,
            problems={problem.where: problem.message for problem in error.fields},
            message=_("This scenario is not possible: see the limits below.") if error.fields else error.message,
        )
    except TooOften as error:
        return replace(card, message=error.message)
    lines, note = outcome_of(tried)
    return replace(card, lines=lines, note=note, is_tried=True)


def _share(request: HttpRequest) -> tuple[float | None, str, str]:
    """The assumed pace 0..1, the percentage as typed, and why it is invalid."""
    typed = request.GET.get(SHARE, "")[:_MOST_TYPED].strip()
    try:
        return read_share(typed), typed, ""
    except Invalid as error:
        return None, typed, error.message


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
    if _is_of_form(request):
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


@require_safe
def what_if(request: HttpRequest) -> HttpResponse:
    """`?core_h=`, `?days=`, `?load=`, `?level=` and `?target=`; stores nothing."""
    policy, entry = read_account(request)
    forecast = get_my_forecast(policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now())
    card = what_if_card(request, policy, entry, forecast)
    status = 422 if card is not None and card.message else 200
    return answer_card(request, "contrib/forecast/_whatif.html", {"what_if": card}, title=_("What if"), status=status)


def _is_of_form(request: HttpRequest) -> bool:
    """Whether the form of the card asks, not the page in which it comes."""
    return request.headers.get("HX-Target") == "forecast"


def _state_of_page(request: HttpRequest) -> QueryDict:
    """Query string of the page with the values of this form."""
    state = QueryDict(split_address(request.headers.get("HX-Current-URL", "")).query, mutable=True)
    for name, values in request.GET.lists():
        state.setlist(name, values)
    state.pop(NUMBERS, None)
    return state
