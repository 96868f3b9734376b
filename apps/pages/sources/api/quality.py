"""Data issues of usage: what imports found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.core.periods import DEFAULT_DAYS
from apps.priorities.selectors.kinds_in_use import kinds_by_default_of_policies
from apps.usage import selectors
from apps.usage.quality import findings as quality
from apps.web import bounds
from apps.web.rest.authentication import ANY, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import serializer_of
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView


class QualityFilterSerializer(serializers.Serializer[Any]):
    days = serializers.IntegerField(min_value=1, max_value=bounds.QUALITY_DAYS, required=False, default=DEFAULT_DAYS)


class QualitySerializer(serializers.Serializer[Any]):
    source = serializers.CharField()  # type: ignore[assignment]
    received = serializer_of(quality.Received)()
    missing_hours = serializers.IntegerField(
        help_text="Number of hours without usage in which the source's interval makes some expected"
    )
    changed = serializers.IntegerField(help_text="Number of jobs that changed after their end")
    changed_core_s = serializers.FloatField(
        allow_null=True, help_text="Sum of these changes; null unless the caller may read all usage"
    )
    too_late_core_s = serializers.FloatField(
        allow_null=True,
        help_text="Usage that was reported after its records expired; null unless the caller may read all usage",
    )
    held = serializers.IntegerField(help_text="Number of periods that another source reported too")
    vanished = serializers.IntegerField(
        help_text="Number of running jobs that were closed because the queue listing no longer had them"
    )
    no_processors = serializers.IntegerField(help_text="Number of jobs with 0 processors, whose usage is 0")
    overrun = serializers.IntegerField(
        help_text="Number of jobs that are recorded as running for longer than they may, and count no further"
    )
    unclear = serializers.IntegerField(
        help_text="Number of jobs of which lines of the log are missing: a start, an end, or the begin of a part"
    )
    of_kinds = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Number of jobs by kind of resource that counts by a default weight in a policy",
    )
    skew_s = serializers.FloatField(allow_null=True, help_text="How far the newest end was ahead of the server's clock")


class QualityListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(
        operation_id="list_data_quality", parameters=[QualityFilterSerializer], responses=list_schema(QualitySerializer)
    )
    def get(self, request: Request) -> Response:
        """Data quality of each source over the last days: gaps, late and changed records, conflicts between sources."""
        actor = actor_of(request)
        span = timedelta(days=read_query(QualityFilterSerializer, request)["days"])
        sources = selectors.list_sources(actor=actor)
        zone = ZoneInfo(settings.TIME_ZONE)
        kinds = {kind for names in kinds_by_default_of_policies().values() for kind in names}
        issues = quality.list_data_issues(
            sources=sources, span=span, at=clock.now(), zone=zone, actor=actor, kinds=kinds
        )
        rows = [{"source": source.slug, "skew_s": source.skew_s, **_counts(issues[source.slug])} for source in sources]
        return list_response(QualitySerializer(rows, many=True).data)


def _counts(issues: quality.DataIssues) -> dict[str, Any]:
    return {
        "received": issues.received,
        "missing_hours": sum(day.n_missing for day in issues.days),
        "changed": issues.changed[0],
        "changed_core_s": issues.changed[1],
        "too_late_core_s": issues.too_late[1],
        "held": issues.n_held,
        "vanished": issues.n_vanished,
        "no_processors": issues.n_no_processors,
        "overrun": issues.n_overrun,
        "unclear": issues.n_unclear,
        "of_kinds": {each.kind: each.n for each in issues.of_kinds},
    }
