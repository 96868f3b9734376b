"""The caller's own waiting jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.schedulers.my_jobs import MOST_OWN_JOBS, list_my_waiting_jobs
from apps.contrib.schedulers.own_waiting_jobs import WaitingJob, WaitingJobs
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView


class WaitingFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)


WaitingJobsSerializer = record_serializer(
    WaitingJobs,
    only="n_mine n_all seen_at listed_by unread silent new_job jobs",
    jobs=record_serializer(WaitingJob, renamed={"submit": "submit_at"})(many=True),
    texts={
        "n_mine": "Number of the caller's waiting jobs",
        "n_all": "Number of all jobs that wait in the same sources",
        "seen_at": "Time of the oldest queue listing used",
        "listed_by": "Schedulers and sources that list waiting jobs",
        "unread": "Schedulers whose agent doesn't list its queue now: jobs may be missing",
        "silent": "Sources that list no running or waiting job",
        "new_job": "The best place that a job submitted now would get; null: not known",
        "jobs": "Best first, at most 100",
    },
)


class MyWaitingJobsView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="list_my_waiting_jobs", parameters=[WaitingFilterSerializer], responses=WaitingJobsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's waiting jobs, in the scheduler's order where an agent lists them, else by fairshare alone."""
        query = read_query(WaitingFilterSerializer, request)
        waiting_jobs = list_my_waiting_jobs(
            policy_slug=query["policy"], actor=actor_of(request), at=clock.now(), limit=MOST_OWN_JOBS
        )
        return Response(WaitingJobsSerializer(waiting_jobs).data)
