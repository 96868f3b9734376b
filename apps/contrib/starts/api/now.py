"""The view of now of a group's level: waits, and who runs on whose unused share."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.starts.now.listed_jobs import ListedScheduler
from apps.contrib.starts.now.records import GroupNow, LevelNow, ResourceNow, RunsOn
from apps.contrib.starts.now.selectors import get_level_now
from apps.contrib.starts.now.wait_statistics import WaitStatistics
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.inputs import entry_uid, read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView


class NowFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=bounds.ENTRY,
        required=False,
        help_text="Group, by uid or path; default: the caller's own, or the root",
    )


WaitStatisticsSerializer = record_serializer(WaitStatistics)
ResourceNowSerializer = record_serializer(
    ResourceNow,
    runs_on=record_serializer(RunsOn)(many=True, help_text="On whose unused shares; sums up to `above`"),
)
GroupNowSerializer = record_serializer(
    GroupNow,
    waits=WaitStatisticsSerializer(),
    cores=ResourceNowSerializer(allow_null=True, help_text="null: no scheduler is counted"),
    gpus=ResourceNowSerializer(allow_null=True, help_text="null: none runs or waits, or no scheduler is counted"),
)
LevelNowSerializer = record_serializer(
    LevelNow,
    rows=GroupNowSerializer(many=True),
    schedulers=record_serializer(ListedScheduler)(many=True),
    total=WaitStatisticsSerializer(help_text="All rows together"),
)


class LevelNowView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_level_now", parameters=[NowFilterSerializer], responses=LevelNowSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Waits of a group's children, and who runs on whose unused share, for those who see each member's numbers."""
        filters, actor = read_query(NowFilterSerializer, request), actor_of(request)
        uid = entry_uid(request, policy, filters["entry"]) if "entry" in filters else None
        level = get_level_now(policy_slug=policy, uid=uid, at=clock.now(), actor=actor)
        return Response(LevelNowSerializer(level).data)
