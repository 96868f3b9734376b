"""Where to submit the next job, and which jobs wait."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.schedulers.my_jobs import MOST_JOBS, list_my_waiting_jobs
from apps.core import clock
from apps.pages.my_priority.numbers.outlook import DEFAULT_CORE_H, AfterJob, list_ranks_after_job
from apps.priorities.waiting_jobs import WaitingJobs
from apps.web.rest.authentication import SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer, serializer_of
from apps.web.rest.views import APIView


class SubmitFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    core_h = serializers.FloatField(
        required=False,
        default=DEFAULT_CORE_H,
        help_text="Usage of the job in hours of the metric (core-hours if it counts cores only), 0 to 1e9",
    )


class RanksAfterJobSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField()
    results = serializer_of(AfterJob)(many=True, help_text="Best first, without accounts that have no rank")


class WaitingFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)


WaitingJobsSerializer = record_serializer(
    WaitingJobs,
    only=("n_mine", "n_all", "seen_at", "listed_by", "silent", "jobs"),
    texts={
        "n_mine": "Number of the caller's waiting jobs",
        "n_all": "Number of all jobs that wait in the same sources",
        "seen_at": "Time of the oldest queue listing used",
        "listed_by": "Schedulers and sources that list waiting jobs",
        "silent": "Sources that list no running or waiting job",
        "jobs": "Best first, at most 100",
    },
)


class MySubmitView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_ranks_after_job", parameters=[SubmitFilterSerializer], responses=RanksAfterJobSerializer
    )
    def get(self, request: Request) -> Response:
        """Ranks of the caller's accounts after a job of this size, the best account first."""
        given = read_query(SubmitFilterSerializer, request)
        found = list_ranks_after_job(
            policy_slug=given["policy"], core_h=given["core_h"], actor=actor_of(request), at=clock.now()
        )
        return Response(RanksAfterJobSerializer({"core_h": given["core_h"], "results": found}).data)


class MyWaitingJobsView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="list_my_waiting_jobs", parameters=[WaitingFilterSerializer], responses=WaitingJobsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's waiting jobs, in the scheduler's order where an agent lists them, else by fairshare alone."""
        given = read_query(WaitingFilterSerializer, request)
        found = list_my_waiting_jobs(
            policy_slug=given["policy"], actor=actor_of(request), at=clock.now(), limit=MOST_JOBS
        )
        return Response(WaitingJobsSerializer(found).data)
