"""Advice about a policy's settings, by REST."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.lab.advisor.runs import StoredAdvice, get_advice, request_advice
from apps.core import clock
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.records import record_serializer
from apps.web.rest.runs import AskedRunSerializer
from apps.web.rest.views import APIView

StoredAdviceSerializer = record_serializer(StoredAdvice, component="PolicyAdvice")


class AdviceView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ}), "POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="get_policy_advice", responses=StoredAdviceSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Operator, resolution, half-life and algorithm that fit this policy, with what was measured of each."""
        stored = get_advice(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return Response(StoredAdviceSerializer(stored).data)

    @extend_schema(operation_id="compute_policy_advice", request=None, responses={202: AskedRunSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Measure the policy again, in the background."""
        run = request_advice(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return Response({"run": run.pk}, status=202)
