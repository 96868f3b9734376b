"""How often promises of a scheduler's starts held."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.starts.learned_trees import LearnedTrees
from apps.contrib.starts.start_record import BY, HeldGroup, StartRecord, get_start_record
from apps.core import clock
from apps.web.rest.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView

StartRecordSerializer = record_serializer(
    StartRecord,
    only="scheduler by days taken_at recent_share is_low past_queues omitted groups",
    texts={
        "by": "What groups are by",
        "taken_at": "Time of the agent's last listing",
        "omitted": "Groups with fewer than 5 bursts, or beyond 100",
        "recent_share": "Of the latest 300 promises of 80 %, the lower one of both kinds; null below 100",
        "is_low": "Whether that is below 0.65: each answer says so",
    },
    scheduler=serializers.CharField(source="scheduler.name"),
    past_queues=record_serializer(LearnedTrees)(
        allow_null=True,
        help_text="Past queues from which starts are estimated, learned each day; null before the first time",
    ),
    groups=record_serializer(HeldGroup)(many=True),
)


class StartRecordFilterSerializer(serializers.Serializer[Any]):
    by = serializers.ChoiceField(BY, required=False, default="all", help_text="How promises are grouped")


class StartRecordView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_start_record", parameters=[StartRecordFilterSerializer], responses=StartRecordSerializer
    )
    def get(self, request: Request, scheduler: str) -> Response:
        """How often promises of job starts held in 90 days, by kind and level, for all who may see the policy."""
        query = read_query(StartRecordFilterSerializer, request)
        record = get_start_record(name=scheduler, by=query["by"], at=clock.now(), actor=actor_of(request))
        return Response(StartRecordSerializer(record).data)
