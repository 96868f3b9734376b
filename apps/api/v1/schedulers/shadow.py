"""Shadow mode: where a scheduler's own numbers differ from ours and why, agreement over time, and switching on."""

from __future__ import annotations

from typing import ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.allocations.views import IF_MATCH, seen_tag
from apps.api.v1.schedulers.serializers import SchedulerSerializer, scheduler_json
from apps.api.v1.schedulers.shadow_serializers import ShadowSerializer, SwitchOnSerializer
from apps.api.v1.shapes import asked, sent
from apps.api.views import APIView
from apps.core import clock
from apps.figures.agreement import DAYS, PERIODS_DAYS, agreement_figure
from apps.figures.figure import read_days
from apps.schedulers.orders import orders_of, tag_of
from apps.schedulers.selectors import get_scheduler, get_shadow, list_agreement
from apps.schedulers.services import switch_on

READ = frozenset({POLICIES_READ, POLICIES_WRITE})


class AgreementFilterSerializer(FigureFilterSerializer):
    agreement_days = serializers.ChoiceField(
        [str(n) for n in sorted(PERIODS_DAYS)], required=False, help_text="7 unless given"
    )


class DifferencesView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ}

    @extend_schema(operation_id="get_scheduler_differences", responses=ShadowSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """The scheduler's last values beside ours, the largest difference first, each split into its reasons."""
        found = get_shadow(name=scheduler, at=clock.now(), actor=actor_of(request))
        compared = None if found.comparison is None else found.comparison.to_json()
        return Response(ShadowSerializer({"taken_at": found.taken_at, "comparison": compared}).data)


class AgreementFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ}

    @extend_schema(
        operation_id="get_scheduler_agreement_figure", parameters=[AgreementFilterSerializer], responses=FIGURE_ANSWERS
    )
    def get(self, request: Request, scheduler: str) -> HttpResponseBase:
        """Kendall's tau-b, Spearman's rho and the overlap of the first tenth, over time."""
        asked(AgreementFilterSerializer, request)
        query = request.query_params
        found = list_agreement(
            name=scheduler, n_days=read_days(query, DAYS, PERIODS_DAYS), at=clock.now(), actor=actor_of(request)
        )
        return figure_response(request, agreement_figure(found, query))


class SwitchOnView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="switch_scheduler_on",
        parameters=[IF_MATCH],
        request=SwitchOnSerializer,
        responses=SchedulerSerializer,
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Send values for these partitions, besides those that are on, for a subtree, or for everything."""
        at, actor = clock.now(), actor_of(request)
        get_scheduler(name=scheduler, at=at, actor=actor)
        tag, given = seen_tag(request, "scheduler"), sent(SwitchOnSerializer, request)
        switch_on(name=scheduler, tag=tag, **given, at=at, actor=actor)
        view = get_scheduler(name=scheduler, at=at, actor=actor)
        response = Response(scheduler_json(view, orders_of(view.scheduler), tag_of(view.scheduler)))
        response["ETag"] = f'"{tag_of(view.scheduler)}"'
        return response
