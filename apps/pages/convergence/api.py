"""Convergence by day, week or hour: actual shares beside targets, states, figures of merit, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.priorities.projections import Projection, projections_of
from apps.series.convergence.numbers import get_hourly_convergence
from apps.series.convergence.periods import read_period, today_of
from apps.series.convergence.query import DAILY_UP_TO, DAY_S, OFS, VIEWS
from apps.series.convergence.records import ChildrenQuery, Convergence, MeritFigures, Published, sample_weekly
from apps.series.convergence.selectors import get_series_state, load_convergence, open_entry
from apps.series.convergence.share_methods import read_share_method
from apps.series.daily_series import SeriesState
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.cursors import encode_cursor, read_cursor
from apps.web.rest.inputs import entry_uid, read_query
from apps.web.rest.priority_fields import NumberField
from apps.web.rest.records import keeps_old_names, record_serializer
from apps.web.rest.shapes import SentenceSerializer, UtcTimeField
from apps.web.rest.views import APIView

PAGE = 24
HOUR = "hour"
STEPS = ("day", "week", HOUR)
STATES = ("on", "over", "starved", "met", "no_demand", "inferred", "before_entry", "")
MEASURES = ("then", "today")


class ConvergenceFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, required=False, help_text="uid or path; default: the root")
    view = serializers.ChoiceField(
        VIEWS, required=False, default="decayed", help_text="Which usage is compared with targets"
    )
    window_s = serializers.FloatField(
        min_value=1, max_value=3_660 * DAY_S, required=False, help_text="For view=windowed; rounded to whole days"
    )
    of = serializers.ChoiceField(
        OFS, required=False, default="parent", help_text="Shares as fractions of the parent, or of the total"
    )
    measure = serializers.ChoiceField(
        MEASURES,
        required=False,
        default="then",
        help_text="then: each day against its own targets. today: all days against the current revision, at most 100 "
        "days, for callers who may see names",
    )
    step = serializers.ChoiceField(
        STEPS,
        required=False,
        help_text="Default: day, and week for periods of over 400 days. hour: always the last seven days",
    )
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False)

    def get_fields(self) -> dict[str, Any]:
        """Add `from` and `to`: `from` is a keyword of Python."""
        text = "{} day, such as 2026-03-31; at most 3,660 days"
        days = {
            name: serializers.CharField(max_length=bounds.INSTANT, required=False, help_text=text.format(which))
            for name, which in (("from", "First"), ("to", "Last"))
        }
        return {**super().get_fields(), **days}


ConvergenceFiguresSerializer = record_serializer(
    MeritFigures,
    component="ConvergenceFigures",
    only=(
        "mean_deviation_points",
        "inside",
        "half_time_days",
        "half_time_revision",
        "idle_redistributed",
        "demand_error_points",
        "n_days",
    ),
    texts={
        "mean_deviation_points": "Mean |actual − target| in percentage points, weighted by target",
        "inside": "Fraction of the time within the tolerance, 0 to 1",
        "half_time_revision": "Revision whose change of targets is measured",
        "idle_redistributed": "Fraction of the total that entries without demand left to others",
        "demand_error_points": "The mean deviation of entries with demand only",
    },
    half_time_days=NumberField(
        allow_null=True,
        help_text="Days to halve the deviation after that change; null: nothing changed; Infinity: not yet halved",
    ),
)


ProjectionSerializer = record_serializer(
    Projection,
    only="outcome as_of on_target_at earliest_at latest_at usual_share next_days",
    texts={
        "outcome": "Whether it comes to its target at the usual pace of the last 28 days",
        "on_target_at": "When it is within its tolerance; null unless the outcome is `recovers`",
        "earliest_at": "The same at the quarter of the pace that leads there first",
        "usual_share": "Its fraction of the group's usage in the last 28 days",
        "next_days": "Its expected fraction of the group's usage, one point a day",
    },
)


@keeps_old_names
class MemberSeriesSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    kind = serializers.CharField(allow_blank=True)
    in_tree = serializers.BooleanField(help_text="The entry exists in the current tree")
    suppressed = serializers.BooleanField(help_text="Usage is hidden: fewer than five active users")
    target = serializers.ListField(child=serializers.FloatField(allow_null=True))
    actual = serializers.ListField(child=serializers.FloatField(allow_null=True))
    deviation_points = serializers.ListField(child=serializers.FloatField(allow_null=True))
    state = serializers.ListField(
        child=serializers.ChoiceField(STATES, allow_blank=True),
        help_text="met: under, and all that was requested ran. inferred: under and running; waiting jobs are not "
        "reported. Empty: nothing to compare",
    )
    suppressed_days = serializers.ListField(child=serializers.BooleanField(), help_text="Its numbers are null there")
    projection = ProjectionSerializer(
        allow_null=True,
        help_text="From the newest snapshot on; null for raw and windowed shares, for those of the total, and where "
        "usage is not shown in full",
    )


SeriesBuiltSerializer = record_serializer(SeriesState, component="SeriesBuilt", exclude=("missing", "local_since"))
PublishedSerializer = record_serializer(Published, exclude=("day",))


class MissingDaySerializer(serializers.Serializer[Any]):
    on = serializers.DateField()
    sources = serializers.ListField(child=serializers.CharField())


class ConvergenceSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    entry = serializers.UUIDField()
    name = serializers.CharField()
    itself = serializers.BooleanField(help_text="The entry is a leaf: `results` has the entry itself, not its children")
    view = serializers.ChoiceField(VIEWS)
    window_s = serializers.IntegerField(allow_null=True)
    of = serializers.ChoiceField(OFS)
    step = serializers.ChoiceField(STEPS)
    measured_against = serializers.IntegerField(
        allow_null=True,
        help_text="Revision against which all days are measured (measure=today); null: each day's own revision",
    )
    to = serializers.DateField()
    built = SeriesBuiltSerializer(help_text="Which days and hours there are")
    verdict = SentenceSerializer(many=True)
    figures = ConvergenceFiguresSerializer()
    days = serializers.ListField(child=serializers.DateField(), help_text="Empty with step=hour")
    hours = serializers.ListField(child=UtcTimeField(), help_text="With step=hour: start of each hour")
    revisions = serializers.ListField(
        child=serializers.IntegerField(), help_text="Revision that was current at the end of each day"
    )
    before_first = serializers.ListField(
        child=serializers.BooleanField(), help_text="true: the policy had no revision yet"
    )
    missing = MissingDaySerializer(many=True, help_text="Days on which sources are missing")
    local_only = SentenceSerializer(
        many=True, help_text="Days that are compared by local usage because usage of other sites was missing"
    )
    published = PublishedSerializer(many=True)
    n_all = serializers.IntegerField(
        help_text="Number of all entries; of very many, only those with the largest targets are listed"
    )
    results = MemberSeriesSerializer(many=True, help_text="24 a page, those furthest from their targets first")
    next = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """Add `from`, a keyword of Python."""
        return {**super().get_fields(), "from": serializers.DateField()}


class ConvergenceView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_convergence", parameters=[ConvergenceFilterSerializer], responses=ConvergenceSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Actual shares of an entry's children beside their targets, by day, week or hour.

        Figures and verdict are computed from days, also if the results are by week. Days outside the stored range,
        which `built` gives, are left out.
        """
        filters, actor = read_query(ConvergenceFilterSerializer, request), actor_of(request)
        scope = POLICIES_READ if actor.has_scope(POLICIES_READ) else SELF_READ
        uid = entry_uid(request, policy, filters["entry"]) if "entry" in filters else None
        method = read_share_method(filters["view"], filters["of"], filters.get("window_s"))
        projections: Mapping[UUID, Projection] = {}
        if filters.get("step") == HOUR:
            convergence = get_hourly_convergence(policy_slug=policy, actor=actor, uid=uid, method=method, scope=scope)
        else:
            state = get_series_state(policy_slug=policy, actor=actor, scope=scope)
            today = today_of(clock.now())
            period = read_period(filters.get("from", ""), filters.get("to", ""), state=state, today=today)
            query = ChildrenQuery(period=period, method=method, against_today=filters["measure"] == "today")
            entry = open_entry(policy_slug=policy, actor=actor, uid=uid, itself=False, scope=scope)
            convergence = load_convergence(entry, query, actor)
            if query.is_projected:
                uids = [member.uid for member in convergence.members if member.is_here]
                projections = projections_of(entry.view, uids)
        step = filters.get("step", STEPS[convergence.period.n_days > DAILY_UP_TO])
        return Response(_answer(convergence, projections, step, max(read_cursor(filters) or 0, 0)))


def _answer(convergence: Convergence, projections: Mapping[UUID, Projection], step: str, start: int) -> dict[str, Any]:
    shown = sample_weekly(convergence) if step == "week" else convergence
    rows = convergence.order()[start : start + PAGE]
    next_start = start + PAGE if start + PAGE < len(convergence.members) else None
    method = convergence.method
    return {
        "policy": convergence.policy_slug,
        "entry": convergence.entry.uid,
        "name": convergence.entry.name,
        "itself": convergence.itself,
        "view": method.view,
        "of": method.of,
        "step": step,
        "measured_against": convergence.measured_against,
        "window_s": method.window_days * DAY_S if method.view == "windowed" else None,
        "from": convergence.period.from_on,
        "to": convergence.period.to_on,
        "built": SeriesBuiltSerializer(convergence.state).data,
        "verdict": [sentence.json() for sentence in convergence.verdict],
        "figures": ConvergenceFiguresSerializer(convergence.figures).data,
        "days": [] if shown.is_by_hour else list(shown.on),
        "hours": list(shown.on) if shown.is_by_hour else [],
        "revisions": shown.days.revision.tolist(),
        "before_first": shown.days.is_before_first.tolist(),
        "missing": [{"on": day, "sources": list(sources)} for day, sources in sorted(convergence.gaps.items())],
        "local_only": [sentence.json() for sentence in convergence.local_only],
        "published": PublishedSerializer(convergence.published, many=True).data,
        "n_all": convergence.n_all,
        "results": [_member(shown, row, projections) for row in rows],
        "next": None if next_start is None else encode_cursor(next_start),
    }


def _member(convergence: Convergence, row: int, projections: Mapping[UUID, Projection]) -> dict[str, Any]:
    projection = projections.get(convergence.members[row].uid)
    member, visible = convergence.members[row], convergence.visible[row]
    return {
        "uid": member.uid,
        "name": member.name,
        "kind": member.kind,
        "in_tree": member.is_here,
        "suppressed": bool(len(visible)) and not visible.any(),
        "target": _finite_or_none(convergence.target[row]),
        "actual": _finite_or_none(convergence.actual[row]),
        "deviation_points": _finite_or_none(convergence.deviation[row] * 100),
        "state": convergence.states[row].tolist(),
        "suppressed_days": (~visible).tolist(),
        "projection": None if projection is None else ProjectionSerializer(projection).data,
    }


def _finite_or_none(values: Any) -> list[float | None]:
    return [value if isfinite(value) else None for value in values.tolist()]
