"""Goals: the changes that bring an entry to its target by a date, with who gives for each. Nothing is kept."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.goals import LEVERS
from apps.analytics.goals.records import solution_json
from apps.analytics.goals.selectors import get_solution, read_goal
from apps.api.authentication import POLICIES_READ, Scopes, actor_of
from apps.api.shapes import UtcTimeField, asked, entry_uid
from apps.api.views import APIView
from apps.core import clock
from apps.priorities.selectors.rows import open_view


class GoalFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=8_400, help_text="uid or path")
    by = serializers.CharField(max_length=40, help_text="A day, 2026-12-15, at most 366 days ahead")
    most_lost = serializers.CharField(
        max_length=40,
        required=False,
        help_text="Points that the deviation of any other entry may fall by; 1 by default",
    )
    least_target = serializers.CharField(max_length=40, required=False, help_text="Of the entry, percent; 0 by default")
    most_target = serializers.CharField(max_length=40, required=False, help_text="Of the entry, percent")


class GoalSharesSerializer(serializers.Serializer[Any]):
    entry_uid = serializers.UUIDField()
    name = serializers.CharField()
    before = serializers.FloatField()
    after = serializers.FloatField()


class GoalMovedSerializer(serializers.Serializer[Any]):
    entry_uid = serializers.UUIDField()
    entry = serializers.CharField()
    name = serializers.CharField()
    points = serializers.FloatField(help_text="By which its deviation (target − actual) rises; below 0 for a loss")


class GoalOptionSerializer(serializers.Serializer[Any]):
    lever = serializers.ChoiceField(
        LEVERS,
        help_text="shares: one weight; unused: those give that use less than their target; equal: all give alike",
    )
    is_reached = serializers.BooleanField()
    target = serializers.FloatField()
    actual = serializers.FloatField()
    outside_points = serializers.FloatField(help_text="How far actual is outside the tolerance")
    most_lost_points = serializers.FloatField()
    shares = GoalSharesSerializer(many=True)
    refund_h = serializers.FloatField(allow_null=True, help_text="Hours of `resource` to refund")
    resource = serializers.CharField(allow_null=True)
    half_life_s = serializers.FloatField(allow_null=True)
    moved = GoalMovedSerializer(many=True, help_text="The 50 largest losses and the 50 largest gains")
    operations = serializers.ListField(child=serializers.DictField(), help_text="As a change set takes them")


class GoalCourseSerializer(serializers.Serializer[Any]):
    target = serializers.FloatField()
    actual = serializers.FloatField()
    tolerance = serializers.FloatField()
    outside_points = serializers.FloatField()


class GoalAssumesSerializer(serializers.Serializer[Any]):
    demand_days = serializers.IntegerField()
    demand = serializers.CharField(help_text="as_lately: every account goes on as in the last `demand_days` days")
    changes = serializers.CharField(help_text="from_now_on: a change holds from now on")


class GoalLeftOutSerializer(serializers.Serializer[Any]):
    lever = serializers.ChoiceField(LEVERS)
    reason = serializers.ChoiceField(["hidden", "no_half_life"])


class GoalSolutionSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    entry = serializers.CharField()
    entry_uid = serializers.UUIDField()
    by = serializers.DateField()
    most_lost_points = serializers.FloatField()
    least_target = serializers.FloatField()
    most_target = serializers.FloatField()
    as_of = UtcTimeField()
    at = UtcTimeField(help_text="The instant that is judged: whole days after as_of, at most the end of `by`")
    assumes = GoalAssumesSerializer()
    is_reached_already = serializers.BooleanField()
    is_possible = serializers.BooleanField()
    without = GoalCourseSerializer(help_text="If nothing changes")
    options = GoalOptionSerializer(many=True)
    closest = GoalOptionSerializer(allow_null=True, help_text="Where no option reaches the goal")
    left_out = GoalLeftOutSerializer(many=True)


class GoalView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="solve_goal", parameters=[GoalFilterSerializer], responses=GoalSolutionSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Which shares, refund or half-life bring an entry to its target by a day; by the projection."""
        given = asked(GoalFilterSerializer, request)
        entry = entry_uid(request, policy, given.pop("entry"))
        view = open_view(policy_slug=policy, actor=actor_of(request))
        view.require(entry)  # a hidden one isn't found, whatever else is wrong
        goal = read_goal(given, entry=entry, today=timezone.localtime(clock.now()).date())
        found = get_solution(policy_slug=policy, goal=goal, actor=actor_of(request))
        return Response(solution_json(policy, found))
