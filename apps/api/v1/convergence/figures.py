"""Figures of convergence, as the pages draw them: sentence, traces, axes and table in one answer."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import QueryDict
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.analytics.convergence.numbers import get_numbers
from apps.analytics.convergence.period import today_of
from apps.analytics.convergence.selectors import get_series_state
from apps.api.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.lists import asked
from apps.api.v1.policies.places import entry_uid
from apps.core import clock
from apps.figures.convergence.answers import FIGURES, draw_figure, read_figure

_TEXT: dict[str, str] = {
    "entry": "uid or path whose children are meant; the root by default",
    "days": "7, 30, 90, 365 or all",
    "from": "a day, instead of days",
    "to": "a day, instead of days",
    "view": "decayed, windowed or raw",
    "of": "parent or total",
    "window": "days of view=windowed",
    "step": "hour: the last seven days by the hour",
    "measure": "today: all days against the current revision",
    "overlay": "of panels: band, changes, demand, gaps; several",
    "page": "of panels: twelve a page",
    "range": "of focus: 7, 30, 90, 365 or all",
    "show": "of focus: points, ratio or percent",
    "pick": "of focus: uid or path of an entry; up to eight",
    "slots": "of focus: a digit 1 to 8 a pick, its colour",
    "hide": "of focus: uid of a pick that is not drawn; several",
}
_SEVERAL = {"pick", "hide", "overlay"}


class ConvergenceFigureFilterSerializer(FigureFilterSerializer):
    """The names of the page's query: what they hold is read where the page reads it."""

    def get_fields(self) -> dict[str, Any]:
        """One of them, `from`, is no name of a class's body."""
        one = {name: _text(text) for name, text in _TEXT.items() if name not in _SEVERAL}
        many = {
            name: serializers.ListField(child=_text(""), required=False, help_text=_TEXT[name]) for name in _SEVERAL
        }
        return {**super().get_fields(), **one, **many}


def _text(help_text: str) -> serializers.CharField:
    return serializers.CharField(required=False, allow_blank=True, trim_whitespace=False, help_text=help_text)


class ConvergenceFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_convergence_figure",
        parameters=[OpenApiParameter("figure", str, "path", enum=FIGURES), ConvergenceFigureFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, policy: str, figure: str) -> HttpResponseBase:
        """One figure of the convergence pages for the query that the page has: `data` and `layout` are those of
        plotly.js, colours are names of design tokens. 422 where it can't be drawn; `empty` says why it has no picture.
        """
        actor = actor_of(request)
        query = QueryDict(request.META.get("QUERY_STRING", ""), mutable=True)
        asked(ConvergenceFigureFilterSerializer, request)
        query.pop("format", None)
        entry = query.pop("entry", [""])[-1]
        uid = entry_uid(request, policy, str(entry)) if entry else None
        scope = POLICIES_READ if actor.has_scope(POLICIES_READ) else SELF_READ
        state = get_series_state(policy_slug=policy, actor=actor, scope=scope)
        wanted = read_figure(figure, query, state, today_of(clock.now()))
        numbers = wanted.numbers
        found = None if numbers is None else get_numbers(numbers, policy_slug=policy, uid=uid, actor=actor, scope=scope)
        return figure_response(request, draw_figure(wanted, found))
