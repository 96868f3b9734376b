"""Figures of core-hours by REST: by week, and what is left of allocations."""

from __future__ import annotations

from typing import ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.api.authentication import Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.allocations.views import ENTRY, READ_WRITE, DaysSerializer, asked_entry, asked_period, this_year, zone
from apps.api.v1.lists import asked
from apps.figures.core_hours.answers import FIGURES, make_figure
from apps.figures.core_hours.usage_weeks import SPLITS, UNITS
from apps.priorities.selectors.allocations.weeks import get_core_hour_weeks


class CoreHourFilterSerializer(DaysSerializer, FigureFilterSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    usage_by = serializers.ChoiceField(SPLITS, required=False, help_text="Of `usage`; group unless given")
    usage_unit = serializers.ChoiceField(UNITS, required=False, help_text="Of `usage`; core-hours unless given")
    usage_hide = serializers.ListField(
        child=serializers.CharField(max_length=128), required=False, help_text="Of `usage`: series to leave out"
    )
    left_hide = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, help_text="Of `burn-down`: entries to leave out"
    )


class AllocationFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(
        operation_id="get_allocation_figure",
        parameters=[OpenApiParameter("figure", str, "path", enum=tuple(FIGURES)), CoreHourFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, policy: str, figure: str) -> HttpResponseBase:
        """`usage`: core-hours by week, by group or site. `burn-down`: what is left of allocations, week by week."""
        given = asked(CoreHourFilterSerializer, request)
        found = get_core_hour_weeks(
            policy_slug=policy,
            of=asked_entry(request, policy, given["of"]),
            zone=zone(),
            actor=actor_of(request),
            period=asked_period(given, usual=this_year()),
        )
        return figure_response(request, make_figure(figure, found, request.query_params))
