"""Goals: the changes that bring an entry to its target by a date, with who gives for each. Nothing is kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.goals import GoalSolution
from apps.analytics.goals.selectors import get_solution, read_goal
from apps.api.authentication import POLICIES_READ, Scopes, actor_of
from apps.api.records import serializer_of
from apps.api.shapes import asked, entry_uid
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


class GoalView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="solve_goal", parameters=[GoalFilterSerializer], responses=serializer_of(GoalSolution))
    def get(self, request: Request, policy: str) -> Response:
        """Which shares, refund or half-life bring an entry to its target by a day; by the projection."""
        given = asked(GoalFilterSerializer, request)
        entry = entry_uid(request, policy, given.pop("entry"))
        view = open_view(policy_slug=policy, actor=actor_of(request))
        view.require(entry)  # a hidden one isn't found, whatever else is wrong
        goal = read_goal(given, entry=entry, today=timezone.localtime(clock.now()).date())
        found = get_solution(policy_slug=policy, goal=goal, actor=actor_of(request))
        return Response(asdict(found))
