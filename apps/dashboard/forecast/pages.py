"""The two cards of my priority that look ahead, put together from what the address says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.analytics.forecast import Forecast, get_my_forecast
from apps.analytics.what_if import read_asked, try_out_mine
from apps.core import clock
from apps.core.errors import Invalid, NotFound, TooOften, Unavailable
from apps.dashboard.forecast import presenters as forecast_lines
from apps.dashboard.forecast.presenters import ForecastCard, WhatIfCard
from apps.dashboard.shell.actor import actor_of
from apps.figures.my_priority.forecast import SHARE, read_share

_FIELDS = ("core_h", "days", "load", "level", "target")
_MOST_TYPED = 200


def forecast_card(request: HttpRequest, policy: str, entry: UUID) -> ForecastCard | None:
    """The card for a page or alone; None where nothing can be told of the account."""
    return _drawn(request, forecast_asked(request, policy, entry))


def _drawn(request: HttpRequest, found: Forecast | None) -> ForecastCard | None:
    _pace, typed, problem = _share(request)
    return None if found is None else forecast_lines.card_of(found, share=typed, problem=problem)


def what_if_card(request: HttpRequest, policy: str, entry: UUID) -> WhatIfCard | None:
    """The form, and what comes out where something is supposed."""
    return _what_if(request, policy, entry, _forecast(request, policy, entry, None))


def _what_if(request: HttpRequest, policy: str, entry: UUID, found: Forecast | None) -> WhatIfCard | None:
    if found is None or not found.levels:
        return None
    typed = {name: request.GET.get(name, "")[:_MOST_TYPED] for name in _FIELDS}
    levels = [(str(each.uid), each.name) for each in found.levels if each.target is not None]
    group = found.levels[-1].parent_name if len(found.levels) > 1 else ""
    card = WhatIfCard(policy, str(entry), group, levels, typed)
    try:
        asked = read_asked(typed)
        if asked.is_empty:
            return card
        tried = try_out_mine(policy_slug=policy, entry_uid=entry, asked=asked, actor=actor_of(request), at=clock.now())
    except Invalid as error:
        return replace(card, problems={one.where: one.message for one in error.fields}, message=_sentence(error))
    except TooOften as error:
        return replace(card, message=error.message)
    lines, note = forecast_lines.outcome_of(tried)
    return replace(card, lines=lines, note=note, is_tried=True)


def cards_of(request: HttpRequest, policy: str, entry: UUID | None) -> dict[str, Any]:
    """Both cards, as the page includes them; of what is away for a moment there are none."""
    if entry is None:
        return {"forecast": None, "what_if": None}
    try:
        found = forecast_asked(request, policy, entry)
    except (NotFound, Unavailable):
        return {"forecast": None, "what_if": None}
    return {"forecast": _drawn(request, found), "what_if": _what_if(request, policy, entry, found)}


def _sentence(error: Invalid) -> str:
    return _("This scenario is not possible: see the limits below.") if error.fields else error.message


def forecast_asked(request: HttpRequest, policy: str, entry: UUID) -> Forecast | None:
    """At the pace that the address supposes."""
    return _forecast(request, policy, entry, _share(request)[0])


def _forecast(request: HttpRequest, policy: str, entry: UUID, share: float | None) -> Forecast | None:
    return get_my_forecast(policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now(), share=share)


def _share(request: HttpRequest) -> tuple[float | None, str, str]:
    """The pace that is supposed, 0..1, as it was typed in percent, and why it can't be."""
    typed = request.GET.get(SHARE, "")[:_MOST_TYPED].strip()
    try:
        return read_share(typed), typed, ""
    except Invalid as error:
        return None, typed, error.message
