"""Goals: changes that would bring an entry to its target by a date, and which entries lose by each. Read-only."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.forecast.goals import GoalSolution
from apps.contrib.forecast.goals.selectors import get_solution, read_goal
from apps.core import clock
from apps.priorities.selectors.rows import open_view
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.inputs import entry_uid, read_query
from apps.web.rest.records import serializer_of
from apps.web.rest.views import APIView


class GoalFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text="uid or path")
    by = serializers.CharField(
        max_length=bounds.INSTANT, help_text="Last day, such as 2026-12-15; at most 366 days ahead"
    )
    most_lost = serializers.CharField(
        max_length=bounds.NUMBER,
        required=False,
        help_text="Percentage points by which the deviation of any other entry may fall; default 1",
    )
    least_target = serializers.CharField(
        max_length=bounds.NUMBER,
        required=False,
        help_text="Lowest acceptable target of the entry in percent; default 0",
    )
    most_target = serializers.CharField(
        max_length=bounds.NUMBER, required=False, help_text="Highest acceptable target of the entry in percent"
    )


class GoalView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="solve_goal", parameters=[GoalFilterSerializer], responses=serializer_of(GoalSolution))
    def get(self, request: Request, policy: str) -> Response:
        """Find the shares, the refund or the half-life that bring an entry to its target by a day, as projected."""
        query = read_query(GoalFilterSerializer, request)
        entry = entry_uid(request, policy, query.pop("entry"))
        view = open_view(policy_slug=policy, actor=actor_of(request))
        view.require(entry)  # first, so that a hidden entry is always answered with 404
        goal = read_goal(query, entry=entry, today=timezone.localtime(clock.now()).date())
        solution = get_solution(policy_slug=policy, goal=goal, actor=actor_of(request))
        return Response(serializer_of(GoalSolution)(solution).data)
