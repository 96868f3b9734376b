"""The caller's own allocations, for a terminal."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations.api.views import BoardRowSerializer, zone
from apps.contrib.allocations.mine import OwnAllocation, list_own_allocations
from apps.web import bounds
from apps.web.rest.authentication import SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView


class OwnAllocationFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG, required=False)


OwnAllocationSerializer = record_serializer(
    OwnAllocation, row=BoardRowSerializer(help_text="As on the board of the policy")
)


class MyAllocationsView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="list_my_allocations",
        parameters=[OwnAllocationFilterSerializer],
        responses=list_schema(OwnAllocationSerializer),
    )
    def get(self, request: Request) -> Response:
        """Current allocations of the caller's entries, of those above them, and of groups with a role, in each unit:
        groups with a role first, at most 200.
        """
        query = read_query(OwnAllocationFilterSerializer, request)
        rows = list_own_allocations(zone=zone(), actor=actor_of(request), policy_slug=query.get("policy"))
        return list_response(OwnAllocationSerializer(rows, many=True).data)
