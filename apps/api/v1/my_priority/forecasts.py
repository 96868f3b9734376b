"""What priorities become: forecasts of accounts, and suppositions tried out. All of it is read, nothing is kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.forecast import (
    CurvePoint,
    FactorAhead,
    FactorPoint,
    Forecast,
    ForecastLevel,
    curve_days,
    get_forecasts,
    get_my_forecasts,
)
from apps.analytics.what_if import RankRange, ScenarioResult, read_scenario, run_scenario
from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.records import serializer_of
from apps.api.shapes import SaidSerializer, UtcTimeField, asked
from apps.api.views import APIView
from apps.core import clock
from apps.engine.explain import Recovery, RecoveryRange
from apps.priorities.sentences import text_of
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import instant

_READ: Scopes = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ, SELF_READ})}
_OUTCOMES = ["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]


class RecoverySerializer(serializers.Serializer[Any]):
    outcome = serializers.ChoiceField(_OUTCOMES)
    in_s = serializers.FloatField(allow_null=True, help_text="Seconds after as_of; null where it never is, or too far")
    at = UtcTimeField(allow_null=True)


class RecoveryRangeSerializer(serializers.Serializer[Any]):
    soonest = RecoverySerializer()
    middle = RecoverySerializer(help_text="At the middle day's pace of the group")
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
    tolerance = serializers.FloatField(allow_null=True, help_text="Half its width, as a part of the group")
    share = serializers.FloatField(allow_null=True, help_text="Of its group's usage, assumed to continue")
    share_seen = serializers.FloatField(allow_null=True, help_text="That it had on the last days")
    days = serializers.IntegerField(help_text="Days the pace is measured over, at most 28")
    daily_usage = DailyUsageSerializer(allow_null=True, help_text="Of the group, in the policy's metric")
    method = serializers.ChoiceField(["closed_form", "hour_by_hour"], allow_null=True)
    to_target = RecoveryRangeSerializer(allow_null=True)
    to_tolerance = RecoveryRangeSerializer(allow_null=True, help_text="null within it")
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True)


class SoFarSerializer(serializers.Serializer[Any]):
    at = UtcTimeField()
    actual = serializers.FloatField()


class FactorAheadSerializer(serializers.Serializer[Any]):
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True)
    level = serializers.CharField(allow_null=True, help_text="The entry whose effect on the factor changes most")
    points = serializer_of(FactorPoint)(
        many=True, help_text="As recomputed then; empty where usage is too much to read"
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
    has_days = serializers.BooleanField(help_text="false: what ran day by day isn't put together yet")
    deciding = serializers.CharField(allow_null=True, help_text="The entry of the level that is the main reason")
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True)
    levels = ForecastLevelSerializer(many=True)
    curve = serializer_of(CurvePoint)(many=True, help_text="Part of the group, of the level that decides")
    so_far = SoFarSerializer(many=True)
    factor_ahead = FactorAheadSerializer(
        allow_null=True, help_text="If everybody goes on as in the last 14 days; null where levels decide the order"
    )


class ForecastListSerializer(serializers.Serializer[Any]):
    results = ForecastSerializer(many=True)


class PlaceSerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField(allow_null=True)
    rank_to = serializers.IntegerField(allow_null=True, help_text="Above rank where ranks are rounded to steps")
    factor = serializers.FloatField(allow_null=True)


class TriedSideSerializer(serializers.Serializer[Any]):
    now = PlaceSerializer()
    then = PlaceSerializer()
    back = RecoverySerializer(allow_null=True, help_text="When `level` meets its target")


class SupposedSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField(allow_null=True)
    days = serializers.FloatField()
    load = serializers.FloatField(help_text="1 for as lately")
    level = serializers.CharField(allow_null=True)
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
    basis = serializers.ChoiceField(["last_days", "present_usage"], help_text="Where the others' pace is measured")
    is_estimate = serializers.BooleanField()
    supposed = SupposedSerializer()
    level = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """`with` is no name of Python's."""
        return {**super().get_fields(), "without": TriedSideSerializer(), "with": TriedSideSerializer()}


class MyForecastFilterSerializer(serializers.Serializer[Any]):
    share = serializers.FloatField(
        required=False, min_value=0, max_value=1, help_text="Instead of that of the last days, 0..1"
    )


class ForecastFilterSerializer(MyForecastFilterSerializer):
    account = serializers.CharField(max_length=1024)
    namespace = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)


class WhatIfFilterSerializer(serializers.Serializer[Any]):
    account = serializers.CharField(max_length=1024)
    namespace = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)
    core_h = serializers.CharField(
        max_length=40, required=False, help_text="Hours it runs evenly, of what the metric counts, 0 to 1e9"
    )
    days = serializers.CharField(max_length=40, required=False, help_text="In how many days, 1 to 365; 7 unless given")
    load = serializers.CharField(max_length=40, required=False, help_text="Its group's pace, percent of now, to 1000")
    level = serializers.CharField(max_length=4096, required=False, help_text="Path of the entry with another target")
    target = serializers.CharField(max_length=40, required=False, help_text="That target in percent, 0 to 100")


class ForecastView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_forecast", parameters=[ForecastFilterSerializer], responses=ForecastListSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """When each level of an account comes back to its target if things go on; empty for one that isn't yours."""
        given = asked(ForecastFilterSerializer, request)
        found = get_forecasts(
            policy_slug=policy,
            account=AccountQuery(given["account"], namespace=given["namespace"]),
            share=given.get("share"),
            actor=actor_of(request),
            at=clock.now(),
        )
        return _private({"results": [forecast_json(each) for each in found]})


class MyForecastView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_my_forecast", parameters=[MyForecastFilterSerializer], responses=ForecastListSerializer
    )
    def get(self, request: Request) -> Response:
        """The forecasts of all of the caller's accounts."""
        given = asked(MyForecastFilterSerializer, request)
        found = get_my_forecasts(share=given.get("share"), actor=actor_of(request), at=clock.now())
        return _private({"results": [forecast_json(each) for each in found]})


class WhatIfView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="try_what_if", parameters=[WhatIfFilterSerializer], responses=TriedSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Rank and factor now and in a week with a supposition and without it: an estimate, and nothing is kept."""
        given = asked(WhatIfFilterSerializer, request)
        account = AccountQuery(given.pop("account"), namespace=given.pop("namespace"))
        tried = run_scenario(
            policy_slug=policy, account=account, scenario=read_scenario(given), actor=actor_of(request), at=clock.now()
        )
        return _private(tried_json(tried))


def _private(told: dict[str, Any]) -> Response:
    return Response(told)


# --- Forecasts as they are sent ---------------------------------------------------------------------------------------
_QUARTILES = ("soonest", "middle", "latest")


def forecast_json(found: Forecast) -> dict[str, Any]:
    """One account's entry, level by level, and the curve of the level that decides."""
    shown = found.shown
    said = [] if shown is None else list(shown.messages)
    return {
        "account": found.account,
        "namespace": found.namespace or None,
        "policy": found.policy.slug,
        "entry": found.entry_path,
        "entry_uid": str(found.entry_uid),
        "snapshot": found.snapshot.snapshot_id,
        "revision": found.snapshot.revision,
        "as_of": instant(found.as_of),
        "has_days": found.has_days,
        "deciding": None if found.deciding is None else found.levels[found.deciding].path,
        "sentence": text_of(said),
        "sentences": [one.json() for one in said],
        "levels": [_level(each, found.as_of) for each in found.levels],
        "curve": []
        if shown is None
        else serializer_of(CurvePoint)(shown.curve(found.as_of, curve_days(shown)), many=True).data,
        "so_far": [] if shown is None else [{"at": instant(at), "actual": part} for at, part in shown.past_shares],
        "factor_ahead": _factor_ahead(found, found.factor_ahead()),
    }


def _factor_ahead(found: Forecast, ahead: FactorAhead | None) -> dict[str, Any] | None:
    if ahead is None:
        return None
    return {
        "sentence": text_of(list(ahead.messages)),
        "sentences": [one.json() for one in ahead.messages],
        "level": None if ahead.level is None else found.snapshot.index.path(ahead.level),
        "points": serializer_of(FactorPoint)(ahead.points, many=True).data,
    }


def recovery_json(found: Recovery, as_of: datetime) -> dict[str, Any]:
    at = None if found.in_s is None else instant(as_of + timedelta(seconds=found.in_s))
    return {"outcome": found.outcome, "in_s": found.in_s, "at": at}


def _level(level: ForecastLevel, as_of: datetime) -> dict[str, Any]:
    outlook = level.outlook
    told: dict[str, Any] = {
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
        "sentences": [one.json() for one in level.messages],
    }
    if outlook is None:
        return told
    daily = dict(
        zip(("least", "p25", "p50", "p75", "most"), (p.group_rate * 86_400 for p in outlook.paces), strict=True)
    )
    return told | {
        "tolerance": outlook.state.slack,
        "share": outlook.share,
        "share_seen": outlook.share_seen,
        "daily_usage": daily,
        "method": outlook.method,
        "to_target": _range(outlook.to_target, as_of),
        "to_tolerance": None if outlook.to_tolerance is None else _range(outlook.to_tolerance, as_of),
    }


def _range(found: RecoveryRange, as_of: datetime) -> dict[str, Any]:
    return {name: recovery_json(getattr(found, name), as_of) for name in _QUARTILES}


# --- Suppositions as they are sent ------------------------------------------------------------------------------------
def tried_json(tried: ScenarioResult) -> dict[str, Any]:
    """Without it and with it, now and in a week; an estimate that nothing is kept of."""
    asked, found = tried.scenario, tried.forecast
    shown = found.shown
    return {
        "account": found.account,
        "namespace": found.namespace or None,
        "policy": found.policy.slug,
        "entry": found.entry_path,
        "snapshot": found.snapshot.snapshot_id,
        "as_of": instant(found.as_of),
        "then_at": instant(tried.then_at),
        "of": tried.of,
        "basis": tried.basis,
        "is_estimate": True,
        "supposed": {
            "core_h": asked.core_h,
            "days": asked.days,
            "load": asked.load,
            "level": asked.level or None,
            "target": asked.target,
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
