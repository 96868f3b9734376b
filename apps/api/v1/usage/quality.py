"""Data issues of usage, by source."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import ANY, Scopes, actor_of
from apps.api.v1.lists import asked, list_of, listed
from apps.core import clock
from apps.usage import selectors
from apps.usage.quality import findings as quality


class QualityFilterSerializer(serializers.Serializer[Any]):
    days = serializers.IntegerField(min_value=1, max_value=366, required=False, default=28)


class ReceivedSerializer(serializers.Serializer[Any]):
    new = serializers.IntegerField()
    duplicate = serializers.IntegerField()
    corrected = serializers.IntegerField()
    late = serializers.IntegerField(help_text="Older than what was stored: changed nothing")
    too_late = serializers.IntegerField(help_text="Ended before the days whose records are kept: not counted")
    rejected = serializers.IntegerField()
    ahead = serializers.IntegerField(help_text="Of the rejected: ended in the future by our clock")


class QualitySerializer(serializers.Serializer[Any]):
    source = serializers.CharField()  # type: ignore[assignment]
    received = ReceivedSerializer()
    missing_hours = serializers.IntegerField(help_text="Without usage, where the source's interval makes some expected")
    changed = serializers.IntegerField(help_text="Jobs that changed after they had ended")
    changed_core_s = serializers.FloatField(allow_null=True, help_text="null: for who reads all usage alone")
    too_late_core_s = serializers.FloatField(allow_null=True, help_text="null: for who reads all usage alone")
    held = serializers.IntegerField(help_text="Stretches of hours that another source brought too")
    vanished = serializers.IntegerField(help_text="Running jobs that were closed because they were no longer listed")
    skew_s = serializers.FloatField(allow_null=True, help_text="How far its newest end lay ahead of our clock")


class QualityListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(
        operation_id="list_data_quality", parameters=[QualityFilterSerializer], responses=list_of(QualitySerializer)
    )
    def get(self, request: Request) -> Response:
        """Every source over the last days: is what came in complete and plausible."""
        actor = actor_of(request)
        span = timedelta(days=asked(QualityFilterSerializer, request)["days"])
        sources = selectors.list_sources(actor=actor)
        zone = ZoneInfo(settings.TIME_ZONE)
        issues = quality.look_at(sources=sources, span=span, at=clock.now(), zone=zone, actor=actor)
        rows = [{"source": one.slug, "skew_s": one.skew_s, **_counts(issues[one.slug])} for one in sources]
        return listed(QualitySerializer(rows, many=True).data)


def _counts(issues: quality.DataIssues) -> dict[str, Any]:
    return {
        "received": issues.received,
        "missing_hours": sum(day.n_missing for day in issues.days),
        "changed": issues.changed[0],
        "changed_core_s": issues.changed[1],
        "too_late_core_s": issues.too_late[1],
        "held": issues.n_held,
        "vanished": issues.n_vanished,
    }
