"""Planned waits under a draft beside the published policy, by group."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.starts.draft_waits.records import DraftWaits, GroupDraftWaits, SchedulerDraftWaits
from apps.contrib.starts.draft_waits.selectors import get_draft_waits
from apps.contrib.starts.plan_error import PlanError
from apps.core import clock
from apps.pages.changes.api.views import found_for
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.inputs import entry_uid, read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView


class DraftWaitsFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=bounds.ENTRY,
        required=False,
        help_text="Group, by uid or path; default: the lowest one that contains all that is edited",
    )


GroupDraftWaitsSerializer = record_serializer(
    GroupDraftWaits,
    only="kind uid path jobs median_s p90_s draft_median_s draft_p90_s change_s",
    texts={"change_s": "By how much the median is longer under the draft; null: not known"},
)
SchedulerDraftWaitsSerializer = record_serializer(
    SchedulerDraftWaits,
    error=record_serializer(PlanError)(help_text="How far plans of this queue were off in the past"),
    groups=GroupDraftWaitsSerializer(many=True),
)
DraftWaitsSerializer = record_serializer(DraftWaits, schedulers=SchedulerDraftWaitsSerializer(many=True))


class DraftWaitsView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(
        operation_id="get_planned_waits_of_change_set",
        parameters=[DraftWaitsFilterSerializer],
        responses=DraftWaitsSerializer,
    )
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """How long the jobs that wait now would still wait under a draft: an estimate with its record."""
        filters, actor = read_query(DraftWaitsFilterSerializer, request), actor_of(request)
        row = found_for(request, policy, change_set)
        uid = entry_uid(request, policy, filters["entry"]) if "entry" in filters else None
        page = get_review_page(id=row.pk, actor=actor, at=clock.now())
        return Response(DraftWaitsSerializer(get_draft_waits(page, uid)).data)
