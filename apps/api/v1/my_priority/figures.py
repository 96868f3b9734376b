"""The figures of *My priority* by REST: the same numbers as the page draws."""

from __future__ import annotations

from typing import ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.analytics.my_priority.numbers import get_my_numbers
from apps.api.authentication import SELF_READ, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.lists import asked
from apps.core import clock
from apps.figures.my_priority.by_name import MY_FIGURES, draw_my_figure, read_my_figure
from apps.figures.my_priority.rank import MEASURES


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
        parameters=[OpenApiParameter("figure", location="path", enum=MY_FIGURES), MyFigureFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, figure: str) -> HttpResponseBase:
        """One figure of an account of one's own: `rank` over time, `forecast`, `factor` ahead, `places` or `waits`."""
        given = asked(MyFigureFilterSerializer, request)
        wanted = read_my_figure(figure, request.query_params)
        found = get_my_numbers(
            figure,
            policy_slug=given["policy"],
            entry_uid=given["entry"],
            n_days=wanted.n_days,
            share=wanted.share,
            actor=actor_of(request),
            at=clock.now(),
        )
        response = figure_response(request, draw_my_figure(wanted, found))
        response["Cache-Control"] = "private, no-store"
        return response
