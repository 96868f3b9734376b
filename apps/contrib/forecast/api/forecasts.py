"""Forecasts of accounts. Read-only."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.forecast.entry_forecast import DatedRecovery, DatedRecoveryRange, FactorAhead
from apps.contrib.forecast.past_usage import PastShare
from apps.contrib.forecast.selectors import Forecast, ForecastLevel, get_forecasts, get_my_forecasts
from apps.core import clock
from apps.priorities.serving.lookup import AccountQuery
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView

_READ: Scopes = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ, SELF_READ})}
RecoverySerializer = record_serializer(DatedRecovery, component="Recovery")
RecoveryRangeSerializer = record_serializer(
    DatedRecoveryRange,
    component="RecoveryRange",
    soonest=RecoverySerializer(),
    middle=RecoverySerializer(help_text="At the group's usual pace: `daily_usage.usual`"),
    latest=RecoverySerializer(),
)
ForecastLevelSerializer = record_serializer(
    ForecastLevel,
    only="path entry_uid name target actual tolerance share share_seen n_days daily_usage method to_target "
    "to_tolerance sentence sentences",
    renamed={
        "entry_uid": "uid",
        "tolerance": "outlook.state.slack",
        "share": "outlook.share",
        "share_seen": "outlook.share_seen",
        "method": "outlook.method",
        "sentences": "messages",
    },
    texts={
        "tolerance": "Half the width of the tolerance band, as a fraction of the group",
        "share": "Assumed share of its group's usage from now on, 0..1",
        "share_seen": "Its share of its group's usage on the last days",
        "days": "Number of days from which usage is estimated, at most 28",
        "daily_usage": "Usage of the group a day, in the policy's metric: extremes, quartiles and the usual pace",
    },
    to_target=RecoveryRangeSerializer(
        allow_null=True, help_text="When it is on target, which is within its tolerance, as for `state`"
    ),
    to_tolerance=RecoveryRangeSerializer(allow_null=True, help_text="As `to_target`; null: it is on target now"),
)
FactorAheadSerializer = record_serializer(
    FactorAhead,
    only="sentence sentences level points",
    renamed={"sentences": "messages", "level": "level_path"},
)
ForecastSerializer = record_serializer(
    Forecast,
    only="account namespace policy path entry_uid snapshot revision as_of has_days deciding sentence "
    "sentences levels curve so_far factor_ahead",
    renamed={
        "snapshot": "snapshot.snapshot_id",
        "revision": "snapshot.revision",
        "deciding": "deciding_path",
        "sentences": "messages",
    },
    texts={
        "has_days": "false: the daily series is not built yet",
        "deciding": "Path of the entry at the level that decides the rank most",
        "curve": "Forecast share of the deciding level's entry",
    },
    policy=serializers.CharField(source="policy.slug"),
    levels=ForecastLevelSerializer(many=True),
    so_far=record_serializer(PastShare, component="SoFar")(
        source="past_shares", many=True, help_text="Its share on past days"
    ),
    factor_ahead=FactorAheadSerializer(
        allow_null=True,
        help_text="Factor if usage stays as in the last 14 days; null if the algorithm orders level by level",
    ),
)


class ForecastListSerializer(serializers.Serializer[Any]):
    results = ForecastSerializer(many=True)


class MyForecastFilterSerializer(serializers.Serializer[Any]):
    share = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        help_text="Assumed share of the group's usage, 0..1; default: that of the last days",
    )


class ForecastFilterSerializer(MyForecastFilterSerializer):
    account = serializers.CharField(max_length=bounds.ACCOUNT)
    namespace = serializers.CharField(max_length=bounds.NAMESPACE, required=False, default="", allow_blank=True)


class ForecastView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_forecast", parameters=[ForecastFilterSerializer], responses=ForecastListSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """When each level of an account reaches its target again if usage continues as on the last days.

        Empty for accounts that are not the caller's.
        """
        query = read_query(ForecastFilterSerializer, request)
        forecasts = get_forecasts(
            policy_slug=policy,
            account=AccountQuery(query["account"], namespace=query["namespace"]),
            share=query.get("share"),
            actor=actor_of(request),
            at=clock.now(),
        )
        return Response(ForecastListSerializer({"results": forecasts}).data)


class MyForecastView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_my_forecast", parameters=[MyForecastFilterSerializer], responses=ForecastListSerializer
    )
    def get(self, request: Request) -> Response:
        """Forecasts of all accounts of the caller."""
        query = read_query(MyForecastFilterSerializer, request)
        forecasts = get_my_forecasts(share=query.get("share"), actor=actor_of(request), at=clock.now())
        return Response(ForecastListSerializer({"results": forecasts}).data)
