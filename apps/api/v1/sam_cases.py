"""A case of SAM's queue from a policy, for `POST /api/v1/jobs/explain` and `manage.py jobs`."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, Scopes, actor_of
from apps.api.v1.lists import asked
from apps.core import clock
from apps.priorities.sam_case import sam_case


class SamCaseFilterSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(
        max_length=4096,
        required=False,
        default="/",
        help_text="The entry whose children are the groups; / unless given",
    )


class SamAlgorithmSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    benefit = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="The metric's weights; absent: jobs give their benefit",
    )


class SamCaseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    algorithm = SamAlgorithmSerializer()
    shares = serializers.DictField(child=serializers.FloatField(), help_text="Targets by group")
    benefit = serializers.DictField(child=serializers.FloatField(), help_text="Usage by group, in the policy's metric")
    jobs = serializers.ListField(child=serializers.DictField(), help_text="Empty: put yours here")


class SamCaseView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ})}

    @extend_schema(operation_id="get_sam_case", parameters=[SamCaseFilterSerializer], responses=SamCaseSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Shares and usage of the entries below one, as a case of SAM's queue that lacks only its jobs."""
        given = asked(SamCaseFilterSerializer, request)
        return Response(sam_case(policy_slug=policy, path=given["path"], actor=actor_of(request), at=clock.now()))
