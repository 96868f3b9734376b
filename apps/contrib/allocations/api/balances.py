"""Balances in the format that Open OnDemand's dashboard reads, with its names of fields."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations.api.views import UNIT, zone
from apps.contrib.allocations.portal_balances import Balances, list_balances
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.views import APIView

_VERSION = 1  # of OnDemand's format


class BalancesFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(
        max_length=bounds.POLICY_SLUG, required=False, default="", allow_blank=True, help_text="Default: all"
    )
    unit = serializers.CharField(**UNIT)


class PortalBalanceSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(help_text="Name of the account")
    project = serializers.CharField(help_text="Entry that has the allocation")
    value = serializers.IntegerField(help_text="Hours of the unit that are left, rounded down")


class PortalConfigSerializer(serializers.Serializer[Any]):
    unit = serializers.CharField()
    project_type = serializers.CharField()


class PortalBalancesSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    timestamp = serializers.IntegerField(help_text="Seconds since 1970")
    config = PortalConfigSerializer()
    balances = PortalBalanceSerializer(many=True)


class BalancesView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ, POLICIES_READ})}

    @extend_schema(
        operation_id="get_balances", parameters=[BalancesFilterSerializer], responses=PortalBalancesSerializer
    )
    def get(self, request: Request) -> Response:
        """What is left of allocations, in Open OnDemand's format: of all users that the caller may read, or their own.

        A portal's token has the scope policies:read and is bound to the policy; a person's has self:read.
        """
        query = read_query(BalancesFilterSerializer, request)
        balances = list_balances(policy_slug=query["policy"], zone=zone(), actor=actor_of(request), unit=query["unit"])
        return Response(PortalBalancesSerializer(_document(balances)).data)


def _document(balances: Balances) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "timestamp": int(balances.seen_at.timestamp()),
        "config": {"unit": balances.unit, "project_type": "project"},
        "balances": balances.balances,
    }
