"""Where to submit: the rank of each account after a job of a size, and the caller's waiting jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.what_if.after_job import USUAL_CORE_H, AfterJob, list_ranks_after_job
from apps.api.authentication import SELF_READ, Scopes, actor_of
from apps.api.instants import UtcTimeField
from apps.api.v1.shapes import asked, serializer_of
from apps.api.views import APIView
from apps.core import clock
from apps.priorities.waiting_jobs import WaitingJob, list_waiting_jobs


class SubmitFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    core_h = serializers.FloatField(
        required=False,
        default=USUAL_CORE_H,
        help_text="Usage of the job, in hours of what the metric counts (core-hours where it counts cores), 0 to 1e9",
    )


class RanksAfterJobSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField()
    results = serializer_of(AfterJob)(many=True, help_text="Best first; an account without a rank is left out")


class WaitingFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)


class WaitingJobsSerializer(serializers.Serializer[Any]):
    n_mine = serializers.IntegerField()
    n_all = serializers.IntegerField(help_text="All that wait in the sources of these jobs")
    seen_at = UtcTimeField(allow_null=True, help_text="When the oldest of these listings was made")
    silent = serializers.ListField(child=serializers.CharField(), help_text="Sources that list no open job")
    jobs = serializer_of(WaitingJob)(many=True, help_text="Best first, at most 1,000")


class MySubmitView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_ranks_after_job", parameters=[SubmitFilterSerializer], responses=RanksAfterJobSerializer
    )
    def get(self, request: Request) -> Response:
        """Which of the caller's accounts goes first, and its rank once a job of so many hours counts in full."""
        given = asked(SubmitFilterSerializer, request)
        found = list_ranks_after_job(
            policy_slug=given["policy"], core_h=given["core_h"], actor=actor_of(request), at=clock.now()
        )
        return Response(RanksAfterJobSerializer({"core_h": given["core_h"], "results": found}).data)


class MyWaitingJobsView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="list_my_waiting_jobs", parameters=[WaitingFilterSerializer], responses=WaitingJobsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's waiting jobs as sources last listed them, each with its position by fairshare alone."""
        given = asked(WaitingFilterSerializer, request)
        found = list_waiting_jobs(policy_slug=given["policy"], actor=actor_of(request), limit=1000)
        return Response(WaitingJobsSerializer(found).data)
