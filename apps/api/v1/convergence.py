"""Convergence day by day: shares beside targets, figures, states, and the verdict as sentences."""

from __future__ import annotations

from math import isfinite
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.convergence.numbers import get_hourly_convergence
from apps.analytics.convergence.query import DAILY_UP_TO, DAY_S, OFS, VIEWS, read_period, read_share_method, today_of
from apps.analytics.convergence.records import ChildrenQuery, Convergence, Published, sample_weekly
from apps.analytics.convergence.selectors import get_convergence, get_series_state
from apps.analytics.series.daily_series import SeriesState
from apps.api.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.records import record_serializer
from apps.api.shapes import UtcTimeField, asked, decode_cursor, encode_cursor, entry_uid
from apps.api.v1.priorities import NumberField
from apps.api.views import APIView
from apps.core import clock

PAGE = 24
HOUR = "hour"
STEPS = ("day", "week", HOUR)
STATES = ("on", "over", "starved", "met", "no_demand", "inferred", "before_entry", "")
MEASURES = ("then", "today")


class ConvergenceFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=8_400, required=False, help_text="uid or path; the root by default")
    view = serializers.ChoiceField(VIEWS, required=False, default="decayed")
    window_s = serializers.FloatField(
        min_value=1, max_value=3_660 * DAY_S, required=False, help_text="Of view=windowed; counted in whole days"
    )
    of = serializers.ChoiceField(OFS, required=False, default="parent")
    measure = serializers.ChoiceField(
        MEASURES,
        required=False,
        default="then",
        help_text="today: all days against the current revision; needs the right to see names; at most 100 days",
    )
    step = serializers.ChoiceField(
        STEPS,
        required=False,
        help_text="By weeks by default where it is over 400 days; hour: the last seven days, whatever the period",
    )
    cursor = serializers.CharField(max_length=200, required=False)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language."""
        says = "A day, 2026-03-31; at most 3,660 of them"
        days = {name: serializers.CharField(max_length=40, required=False, help_text=says) for name in ("from", "to")}
        return {**super().get_fields(), **days}


class SentenceSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    values = serializers.DictField()
    text = serializers.CharField()


class ConvergenceFiguresSerializer(serializers.Serializer[Any]):
    mean_deviation_points = serializers.FloatField(allow_null=True, help_text="|actual − target|, weighted by target")
    inside = serializers.FloatField(allow_null=True, help_text="Part of the time within the tolerance, 0 to 1")
    half_time_days = NumberField(allow_null=True, help_text="null: nothing changed; Infinity: not yet")
    half_time_revision = serializers.IntegerField(allow_null=True)
    idle_given = serializers.FloatField(allow_null=True, help_text="Part that those without demand left to others")
    demand_error_points = serializers.FloatField(
        allow_null=True, help_text="As the mean deviation, of those with demand"
    )
    n_days = serializers.IntegerField()


class MemberSeriesSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField(allow_blank=True)
    in_tree = serializers.BooleanField()
    suppressed = serializers.BooleanField(help_text="Hidden: fewer than five active members")
    target = serializers.ListField(child=serializers.FloatField(allow_null=True))
    actual = serializers.ListField(child=serializers.FloatField(allow_null=True))
    deviation_points = serializers.ListField(child=serializers.FloatField(allow_null=True))
    state = serializers.ListField(child=serializers.ChoiceField(STATES, allow_blank=True))
    suppressed_days = serializers.ListField(child=serializers.BooleanField())


SeriesBuiltSerializer = record_serializer(SeriesState, name="SeriesBuilt", exclude=("missing", "local_since"))
PublishedSerializer = record_serializer(Published, exclude=("day",))


class MissingDaySerializer(serializers.Serializer[Any]):
    on = serializers.DateField()
    sources = serializers.ListField(child=serializers.CharField())


class ConvergenceSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    entry = serializers.UUIDField()
    name = serializers.CharField()
    itself = serializers.BooleanField(help_text="A leaf: results hold the entry, not what is below it")
    view = serializers.ChoiceField(VIEWS)
    window_s = serializers.IntegerField(allow_null=True)
    of = serializers.ChoiceField(OFS)
    step = serializers.ChoiceField(STEPS)
    measured_against = serializers.IntegerField(
        allow_null=True, help_text="With measure=today the head revision; null: each day against that of its end"
    )
    to = serializers.DateField()
    built = SeriesBuiltSerializer()
    verdict = SentenceSerializer(many=True)
    figures = ConvergenceFiguresSerializer()
    days = serializers.ListField(child=serializers.DateField(), help_text="Empty by the hour")
    hours = serializers.ListField(child=UtcTimeField(), help_text="By the hour: when each begins")
    revisions = serializers.ListField(child=serializers.IntegerField(), help_text="Current at each day's end")
    before_first = serializers.ListField(child=serializers.BooleanField(), help_text="Nothing was published yet")
    missing = MissingDaySerializer(many=True)
    local_only = SentenceSerializer(
        many=True, help_text="Which days are compared by this site's usage alone, though others' would count"
    )
    published = PublishedSerializer(many=True)
    n_all = serializers.IntegerField(help_text="Of very many, those with the largest targets are listed")
    results = MemberSeriesSerializer(many=True)
    next = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language."""
        return {**super().get_fields(), "from": serializers.DateField()}


class ConvergenceView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_convergence", parameters=[ConvergenceFilterSerializer], responses=ConvergenceSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """The children of an entry by day or by hour: each one's usage as a fraction of their parent's, beside its
        target.

            Figures and verdict are of every day, also where the results are by weeks. Days outside the stored range are
            left out; `built` gives the range.
        """
        given, actor = asked(ConvergenceFilterSerializer, request), actor_of(request)
        scope = POLICIES_READ if actor.has_scope(POLICIES_READ) else SELF_READ
        uid = entry_uid(request, policy, given["entry"]) if "entry" in given else None
        method = read_share_method(given["view"], given["of"], given.get("window_s"))
        if given.get("step") == HOUR:
            found = get_hourly_convergence(policy_slug=policy, actor=actor, uid=uid, method=method, scope=scope)
        else:
            state = get_series_state(policy_slug=policy, actor=actor, scope=scope)
            today = today_of(clock.now())
            period = read_period(given.get("from", ""), given.get("to", ""), state=state, today=today)
            query = ChildrenQuery(period=period, method=method, against_today=given["measure"] == "today")
            found = get_convergence(query, policy_slug=policy, actor=actor, uid=uid, scope=scope)
        step = given.get("step", STEPS[found.period.n_days > DAILY_UP_TO])
        start = decode_cursor(given["cursor"], int) if "cursor" in given else 0
        return Response(_answer(found, step, max(start, 0)))


def _answer(found: Convergence, step: str, start: int) -> dict[str, Any]:
    shown = sample_weekly(found) if step == "week" else found
    rows = found.order()[start : start + PAGE]
    following = start + PAGE if start + PAGE < len(found.members) else None
    method = found.method
    return {
        "policy": found.policy_slug,
        "entry": found.entry.uid,
        "name": found.entry.name,
        "itself": found.itself,
        "view": method.view,
        "of": method.of,
        "step": step,
        "measured_against": found.measured_against,
        "window_s": method.window_days * DAY_S if method.view == "windowed" else None,
        "from": found.period.from_on,
        "to": found.period.to_on,
        "built": SeriesBuiltSerializer(found.state).data,
        "verdict": [sentence.json() for sentence in found.verdict],
        "figures": _figures(found),
        "days": [] if shown.is_by_hour else list(shown.on),
        "hours": list(shown.on) if shown.is_by_hour else [],
        "revisions": shown.days.revision.tolist(),
        "before_first": shown.days.is_before_first.tolist(),
        "missing": [{"on": day, "sources": list(sources)} for day, sources in sorted(found.gaps.items())],
        "local_only": [sentence.json() for sentence in found.local_only],
        "published": PublishedSerializer(found.published, many=True).data,
        "n_all": found.n_all,
        "results": [_member(shown, row) for row in rows],
        "next": None if following is None else encode_cursor(following),
    }


def _figures(found: Convergence) -> dict[str, Any]:
    figures = found.figures
    return {
        "mean_deviation_points": _points(figures.mean_deviation),
        "inside": figures.inside,
        "half_time_days": figures.half_time_days,
        "half_time_revision": figures.half_time_revision,
        "idle_given": figures.idle_given,
        "demand_error_points": _points(figures.demand_error),
        "n_days": figures.n_days,
    }


def _points(fraction: float | None) -> float | None:
    return None if fraction is None else fraction * 100


def _member(found: Convergence, row: int) -> dict[str, Any]:
    member, told = found.members[row], found.visible[row]
    return {
        "uid": member.uid,
        "name": member.name,
        "kind": member.kind,
        "in_tree": member.is_here,
        "suppressed": bool(len(told)) and not told.any(),
        "target": _known(found.target[row]),
        "actual": _known(found.actual[row]),
        "deviation_points": _known(found.deviation[row] * 100),
        "state": found.states[row].tolist(),
        "suppressed_days": (~told).tolist(),
    }


def _known(values: Any) -> list[float | None]:
    return [value if isfinite(value) else None for value in values.tolist()]
