"""Ranks of the caller's accounts after a job: where to submit it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.forecast.after_job import DEFAULT_CORE_H, AfterJob, list_ranks_after_job
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import serializer_of
from apps.web.rest.views import APIView


class SubmitFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    core_h = serializers.FloatField(
        required=False,
        default=DEFAULT_CORE_H,
        help_text="Usage of the job in hours of the metric (core-hours if it counts cores only), 0 to 1e9",
    )


class RanksAfterJobSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField()
    results = serializer_of(AfterJob)(many=True, help_text="Best first, without accounts that have no rank")


class MySubmitView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_ranks_after_job", parameters=[SubmitFilterSerializer], responses=RanksAfterJobSerializer
    )
    def get(self, request: Request) -> Response:
        """Ranks of the caller's accounts after a job of this size, the best account first."""
        query = read_query(SubmitFilterSerializer, request)
        ranks = list_ranks_after_job(
            policy_slug=query["policy"], core_h=query["core_h"], actor=actor_of(request), at=clock.now()
        )
        return Response(RanksAfterJobSerializer({"core_h": query["core_h"], "results": ranks}).data)
