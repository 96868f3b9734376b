"""The coverage calendar by REST."""

from __future__ import annotations

from typing import ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.api.authentication import ANY, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.allocations.views import zone
from apps.api.v1.lists import asked
from apps.core import clock
from apps.figures.coverage import PERIODS_DAYS, coverage_figure, read_days
from apps.usage.selectors import list_source_days


class CoverageFilterSerializer(FigureFilterSerializer):
    coverage_days = serializers.ChoiceField(
        [str(n) for n in sorted(PERIODS_DAYS)], required=False, help_text="60 unless given"
    )


class CoverageFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="get_coverage_figure", parameters=[CoverageFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request) -> HttpResponseBase:
        """A row a source, a cell a day: complete, in part, or without usage that was expected."""
        asked(CoverageFilterSerializer, request)
        query = request.query_params
        found = list_source_days(n_days=read_days(query), at=clock.now(), zone=zone(), actor=actor_of(request))
        return figure_response(request, coverage_figure(found, query))
