"""The figures of *My priority* by REST: the same numbers as the page draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps import clock
from apps.api.authentication import SELF_READ, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.lists import asked
from apps.errors import NotFound
from apps.figures import Figure
from apps.figures.factor_ahead import factor_figure
from apps.figures.forecast import forecast_figure, read_forecast
from apps.figures.places import places_figure
from apps.figures.rank import MEASURES, rank_figure, read_rank
from apps.figures.waits import read_waits, waits_figure
from apps.priorities.forecast import get_my_forecast
from apps.priorities.selectors.queue_wait import get_my_waits
from apps.priorities.selectors.rank_distribution import get_my_place
from apps.priorities.selectors.rank_history import get_my_rank_history

_NAMES = ("rank", "forecast", "factor", "places", "waits")


class MyFigureFilterSerializer(FigureFilterSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.UUIDField(help_text="Of an account of one's own: `entry_uid` of /me")
    rank_days = serializers.CharField(max_length=8, required=False, help_text="Of `rank`: 14, 30, 90 or 365")
    rank_by = serializers.CharField(max_length=16, required=False, help_text=f"Of `rank`: {' or '.join(MEASURES)}")
    forecast_level = serializers.CharField(
        max_length=64, required=False, help_text="Of `forecast`: uid of the entry to draw"
    )
    share = serializers.CharField(
        max_length=16, required=False, help_text="Of `forecast`: percent of what its group runs, 0 to 100"
    )
    wait_days = serializers.CharField(max_length=8, required=False, help_text="Of `waits`: 30, 90 or 365")


class MyFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_my_figure",
        parameters=[OpenApiParameter("figure", location="path", enum=_NAMES), MyFigureFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, figure: str) -> HttpResponseBase:
        """One figure of an account of one's own: `rank` over time, `forecast`, `factor` ahead, `places` or `waits`."""
        given = asked(MyFigureFilterSerializer, request)
        make = _FIGURES.get(figure)
        if make is None:
            raise NotFound(f"There is no such figure; there are {', '.join(_FIGURES)}.")
        response = figure_response(request, make(request, given["policy"], given["entry"]))
        response["Cache-Control"] = "private, no-store"
        return response


def _rank(request: Request, policy: str, entry: UUID) -> Figure:
    query = request.query_params
    wanted = read_rank(query)
    found = get_my_rank_history(
        policy_slug=policy, entry_uid=entry, n_days=wanted.days, actor=actor_of(request), at=clock.now()
    )
    return rank_figure(found, wanted, query)


def _forecast(request: Request, policy: str, entry: UUID) -> Figure:
    query = request.query_params
    wanted = read_forecast(query)
    found = get_my_forecast(
        policy_slug=policy, entry_uid=entry, share=wanted.share, actor=actor_of(request), at=clock.now()
    )
    if found is None:
        raise NotFound("There is no such account in this policy.")
    return forecast_figure(found, wanted, query)


def _factor(request: Request, policy: str, entry: UUID) -> Figure:
    found = get_my_forecast(policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now())
    figure = None if found is None else factor_figure(found)
    if figure is None:
        raise NotFound("There is no factor to foresee: there is no such account, or levels decide the order.")
    return figure


def _places(request: Request, policy: str, entry: UUID) -> Figure:
    return places_figure(get_my_place(policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now()))


def _waits(request: Request, policy: str, entry: UUID) -> Figure:
    wanted = read_waits(request.query_params)
    found = get_my_waits(
        policy_slug=policy, entry_uid=entry, n_days=wanted.days, actor=actor_of(request), at=clock.now()
    )
    return waits_figure(found, wanted, request.query_params)


_FIGURES: Mapping[str, Callable[[Request, str, UUID], Figure]] = dict(
    zip(_NAMES, (_rank, _forecast, _factor, _places, _waits), strict=True)
)
