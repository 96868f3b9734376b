"""Forecasts of accounts, and what-if estimates. Read-only."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.forecast.entry_forecast import FactorAhead, FactorPoint
from apps.contrib.forecast.selectors import Forecast, ForecastLevel, curve_days, get_forecasts, get_my_forecasts
from apps.contrib.forecast.what_if import RankRange, ScenarioResult, read_scenario, run_scenario
from apps.core import clock
from apps.engine.explain import Recovery, RecoveryRange
from apps.priorities.projections import CurvePoint
from apps.priorities.sentences import text_of
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import instant
from apps.web.rest.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import serializer_of
from apps.web.rest.shapes import SentenceSerializer, UtcTimeField
from apps.web.rest.views import APIView

_READ: Scopes = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ, SELF_READ})}
_OUTCOMES = ["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]


class RecoverySerializer(serializers.Serializer[Any]):
    outcome = serializers.ChoiceField(_OUTCOMES)
    in_s = serializers.FloatField(allow_null=True, help_text="Seconds after as_of; null: never, or too far ahead")
    at = UtcTimeField(allow_null=True)


class RecoveryRangeSerializer(serializers.Serializer[Any]):
    soonest = RecoverySerializer()
    middle = RecoverySerializer(help_text="At the group's usage of a median day")
    latest = RecoverySerializer()


class DailyUsageSerializer(serializers.Serializer[Any]):
    least = serializers.FloatField()
    p25 = serializers.FloatField()
    p50 = serializers.FloatField()
    p75 = serializers.FloatField()
    most = serializers.FloatField()


class ForecastLevelSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField()
    entry_uid = serializers.UUIDField()
    name = serializers.CharField()
    target = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True)
    tolerance = serializers.FloatField(
        allow_null=True, help_text="Half the width of the tolerance band, as a fraction of the group"
    )
    share = serializers.FloatField(allow_null=True, help_text="Assumed share of its group's usage from now on, 0..1")
    share_seen = serializers.FloatField(allow_null=True, help_text="Its share of its group's usage on the last days")
    days = serializers.IntegerField(help_text="Number of days from which usage is estimated, at most 28")
    daily_usage = DailyUsageSerializer(
        allow_null=True, help_text="Usage of the group a day, in the policy's metric: extremes and quartiles"
    )
    method = serializers.ChoiceField(["closed_form", "hour_by_hour"], allow_null=True)
    to_target = RecoveryRangeSerializer(
        allow_null=True, help_text="When it is on target, which is within its tolerance, as for `state`"
    )
    to_tolerance = RecoveryRangeSerializer(allow_null=True, help_text="As `to_target`; null: it is on target now")
    sentence = serializers.CharField()
    sentences = SentenceSerializer(many=True)


class SoFarSerializer(serializers.Serializer[Any]):
    at = UtcTimeField()
    actual = serializers.FloatField()


class FactorAheadSerializer(serializers.Serializer[Any]):
    sentence = serializers.CharField()
    sentences = SentenceSerializer(many=True)
    level = serializers.CharField(
        allow_null=True, help_text="Path of the entry whose effect on the factor changes most"
    )
    points = serializer_of(FactorPoint)(
        many=True, help_text="Factor as it would be recomputed then; empty if there is too much usage to read"
    )


class ForecastSerializer(serializers.Serializer[Any]):
    account = serializers.CharField()
    namespace = serializers.CharField(allow_null=True)
    policy = serializers.CharField()
    entry = serializers.CharField()
    entry_uid = serializers.UUIDField()
    snapshot = serializers.IntegerField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField()
    has_days = serializers.BooleanField(help_text="false: the daily series is not built yet")
    deciding = serializers.CharField(
        allow_null=True, help_text="Path of the entry at the level that decides the rank most"
    )
    sentence = serializers.CharField()
    sentences = SentenceSerializer(many=True)
    levels = ForecastLevelSerializer(many=True)
    curve = serializer_of(CurvePoint)(many=True, help_text="Forecast share of the deciding level's entry")
    so_far = SoFarSerializer(many=True, help_text="Its share on past days")
    factor_ahead = FactorAheadSerializer(
        allow_null=True,
        help_text="Factor if usage stays as in the last 14 days; null if the algorithm orders level by level",
    )


class ForecastListSerializer(serializers.Serializer[Any]):
    results = ForecastSerializer(many=True)


class PlaceSerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField(allow_null=True)
    rank_to = serializers.IntegerField(
        allow_null=True, help_text="Last of a range of ranks, if ranks are rounded to steps"
    )
    factor = serializers.FloatField(allow_null=True)


class TriedSideSerializer(serializers.Serializer[Any]):
    now = PlaceSerializer()
    then = PlaceSerializer()
    back = RecoverySerializer(allow_null=True, help_text="When `level` is on its target again")


class SupposedSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField(allow_null=True)
    days = serializers.FloatField()
    load = serializers.FloatField(help_text="Usage of its group relative to the last days; 1: unchanged")
    level = serializers.CharField(allow_null=True, help_text="Path of the entry with another target")
    target = serializers.FloatField(allow_null=True, help_text="0..1")


class TriedSerializer(serializers.Serializer[Any]):
    account = serializers.CharField()
    namespace = serializers.CharField(allow_null=True)
    policy = serializers.CharField()
    entry = serializers.CharField()
    snapshot = serializers.IntegerField()
    as_of = UtcTimeField()
    then_at = UtcTimeField()
    of = serializers.IntegerField()
    basis = serializers.ChoiceField(
        ["last_days", "present_usage"], help_text="Data from which usage of others is estimated"
    )
    is_estimate = serializers.BooleanField()
    supposed = SupposedSerializer()
    level = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """Add `without` and `with`, a keyword of Python."""
        return {**super().get_fields(), "without": TriedSideSerializer(), "with": TriedSideSerializer()}


class MyForecastFilterSerializer(serializers.Serializer[Any]):
    share = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        help_text="Assumed share of the group's usage, 0..1; default: that of the last days",
    )


class ForecastFilterSerializer(MyForecastFilterSerializer):
    account = serializers.CharField(max_length=1024)
    namespace = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)


class WhatIfFilterSerializer(serializers.Serializer[Any]):
    account = serializers.CharField(max_length=1024)
    namespace = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)
    core_h = serializers.CharField(
        max_length=40, required=False, help_text="Usage of the account, in hours of the metric, 0 to 1e9"
    )
    days = serializers.CharField(
        max_length=40, required=False, help_text="Days over which that usage is spread, 1 to 365; default 7"
    )
    load = serializers.CharField(
        max_length=40, required=False, help_text="Usage of its group in percent of the current one, to 1000"
    )
    level = serializers.CharField(
        max_length=4096, required=False, help_text="Path of an entry on the account's path that gets another target"
    )
    target = serializers.CharField(max_length=40, required=False, help_text="Target of `level` in percent, 0 to 100")


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
        return Response({"results": [forecast_json(each) for each in forecasts]})


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
        return Response({"results": [forecast_json(each) for each in forecasts]})


class WhatIfView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="try_what_if", parameters=[WhatIfFilterSerializer], responses=TriedSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Estimate rank and factor now and in a week, with and without a change of usage or of a target."""
        query = read_query(WhatIfFilterSerializer, request)
        account = AccountQuery(query.pop("account"), namespace=query.pop("namespace"))
        tried = run_scenario(
            policy_slug=policy, account=account, scenario=read_scenario(query), actor=actor_of(request), at=clock.now()
        )
        return Response(tried_json(tried))


_QUARTILES = ("soonest", "middle", "latest")


def forecast_json(forecast: Forecast) -> dict[str, Any]:
    """Forecast of one account, level by level, with the curve of the deciding level."""
    shown = forecast.shown
    messages = [] if shown is None else list(shown.messages)
    return {
        "account": forecast.account,
        "namespace": forecast.namespace or None,
        "policy": forecast.policy.slug,
        "entry": forecast.entry_path,
        "entry_uid": str(forecast.entry_uid),
        "snapshot": forecast.snapshot.snapshot_id,
        "revision": forecast.snapshot.revision,
        "as_of": instant(forecast.as_of),
        "has_days": forecast.has_days,
        "deciding": None if forecast.deciding is None else forecast.levels[forecast.deciding].path,
        "sentence": text_of(messages),
        "sentences": [message.json() for message in messages],
        "levels": [_level(each, forecast.as_of) for each in forecast.levels],
        "curve": []
        if shown is None
        else serializer_of(CurvePoint)(shown.curve(forecast.as_of, curve_days(shown)), many=True).data,
        "so_far": [] if shown is None else [{"at": instant(at), "actual": part} for at, part in shown.past_shares],
        "factor_ahead": _factor_ahead(forecast, forecast.factor_ahead()),
    }


def _factor_ahead(forecast: Forecast, ahead: FactorAhead | None) -> dict[str, Any] | None:
    if ahead is None:
        return None
    return {
        "sentence": text_of(list(ahead.messages)),
        "sentences": [message.json() for message in ahead.messages],
        "level": None if ahead.level is None else forecast.snapshot.index.path(ahead.level),
        "points": serializer_of(FactorPoint)(ahead.points, many=True).data,
    }


def recovery_json(recovery: Recovery, as_of: datetime) -> dict[str, Any]:
    at = None if recovery.in_s is None else instant(as_of + timedelta(seconds=recovery.in_s))
    return {"outcome": recovery.outcome, "in_s": recovery.in_s, "at": at}


def _level(level: ForecastLevel, as_of: datetime) -> dict[str, Any]:
    outlook = level.outlook
    answer: dict[str, Any] = {
        "entry": level.path,
        "entry_uid": str(level.uid),
        "name": level.name,
        "target": level.target,
        "actual": level.actual,
        "tolerance": None,
        "share": None,
        "share_seen": None,
        "days": level.n_days,
        "daily_usage": None,
        "method": None,
        "to_target": None,
        "to_tolerance": None,
        "sentence": text_of(list(level.messages)),
        "sentences": [message.json() for message in level.messages],
    }
    if outlook is None:
        return answer
    daily = dict(
        zip(("least", "p25", "p50", "p75", "most"), (p.group_rate * 86_400 for p in outlook.paces), strict=True)
    )
    return answer | {
        "tolerance": outlook.state.slack,
        "share": outlook.share,
        "share_seen": outlook.share_seen,
        "daily_usage": daily,
        "method": outlook.method,
        "to_target": _range(outlook.to_target, as_of),
        "to_tolerance": None if outlook.state.edge is None else _range(outlook.to_target, as_of),
    }


def _range(recoveries: RecoveryRange, as_of: datetime) -> dict[str, Any]:
    return {name: recovery_json(getattr(recoveries, name), as_of) for name in _QUARTILES}


def tried_json(tried: ScenarioResult) -> dict[str, Any]:
    """An estimate with and without the change, now and in a week."""
    scenario, forecast = tried.scenario, tried.forecast
    shown = forecast.shown
    return {
        "account": forecast.account,
        "namespace": forecast.namespace or None,
        "policy": forecast.policy.slug,
        "entry": forecast.entry_path,
        "snapshot": forecast.snapshot.snapshot_id,
        "as_of": instant(forecast.as_of),
        "then_at": instant(tried.then_at),
        "of": tried.of,
        "basis": tried.basis,
        "is_estimate": True,
        "supposed": {
            "core_h": scenario.core_h,
            "days": scenario.days,
            "load": scenario.load,
            "level": scenario.level or None,
            "target": scenario.target,
        },
        "without": _side(tried, tried.now, tried.then, tried.back),
        "with": _side(tried, tried.now_if, tried.then_if, tried.back_if),
        "level": None if shown is None else shown.path,
    }


def _side(tried: ScenarioResult, now: RankRange, then: RankRange, back: Recovery | None) -> dict[str, Any]:
    return {
        "now": _place(now),
        "then": _place(then),
        "back": None if back is None else recovery_json(back, tried.forecast.as_of),
    }


def _place(place: RankRange) -> dict[str, Any]:
    first, last = (None, None) if place.rank is None else place.rank
    return {"rank": first, "rank_to": last, "factor": place.factor}
