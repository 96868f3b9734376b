"""Capacity: what a site has in a period, in units an hour."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations import capacities
from apps.contrib.allocations.api.views import READ_WRITE, read_renamed
from apps.contrib.allocations.capacities import CapacityChange, CapacityTerms
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.core import clock
from apps.mapping.permissions import load_visibility
from apps.policies.models import Capacity
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL
from apps.web import bounds
from apps.web.rest.authentication import Scopes, actor_of
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import read_body, read_query
from apps.web.rest.reasons import ReasonFilterSerializer
from apps.web.rest.records import keeps_old_names
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, with_etag
from apps.web.rest.views import APIView


@keeps_old_names
class CapacitySerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    site = serializers.CharField(help_text='"": the whole site')
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(allow_null=True, help_text="Last day; null: no end")
    per_hour = serializers.FloatField(help_text="Units an hour, for core-hours the cores; overlapping rows add up")
    unit = serializers.CharField(help_text="Symbol of a unit of the policy, such as core-h")
    note = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()
    etag = serializers.SerializerMethodField(help_text="Value for If-Match")

    def get_etag(self, capacity: Capacity) -> str:
        return f'"{capacities.tag_of(capacity)}"'


PER_HOUR: dict[str, Any] = {"min_value": 0, "max_value": capacities.MOST_CAPACITY_PER_HOUR, "required": False}


class NewCapacitySerializer(serializers.Serializer[Any]):
    site = serializers.CharField(max_length=bounds.SITE, required=False, default="", allow_blank=True)
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(required=False, default=None, allow_null=True)
    per_hour = serializers.FloatField(**PER_HOUR, help_text="Units an hour, for core-hours the cores; required")
    cores = serializers.FloatField(**PER_HOUR, help_text="The former name of `per_hour`")
    unit = serializers.CharField(max_length=LONGEST_SYMBOL, required=False, default=CORE_HOUR.symbol)
    note = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON, required=False, default="", allow_blank=True)
    reason = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON)


class ChangedCapacitySerializer(serializers.Serializer[Any]):
    site = serializers.CharField(max_length=bounds.SITE, required=False, allow_blank=True)
    starts_on = serializers.DateField(required=False)
    ends_on = serializers.DateField(required=False, allow_null=True)
    per_hour = serializers.FloatField(**PER_HOUR)
    cores = serializers.FloatField(**PER_HOUR, help_text="The former name of `per_hour`")
    note = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON, required=False, allow_blank=True)
    reason = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON)


class CapacityListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        capacities.require_recorder(policy_slug=policy, at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="list_capacities", responses=list_schema(CapacitySerializer))
    def get(self, request: Request, policy: str) -> Response:
        """Capacities by first day and site. Their sum is available for allocation and delivery."""
        rows = capacities.list_capacities(
            policy_slug=policy, at=clock.now(), actor=actor_of(request), visibility=load_visibility
        )
        return list_response(CapacitySerializer(rows, many=True).data)

    @extend_schema(operation_id="add_capacity", request=NewCapacitySerializer, responses={201: CapacitySerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Record additional capacity from one day to another. For managers of the whole policy."""
        body = read_body(NewCapacitySerializer, request)
        body["per_hour"] = read_renamed(body, "per_hour", "cores", is_required=True)
        made = capacities.add_capacity(
            policy_slug=policy, terms=CapacityTerms(**body), at=clock.now(), actor=actor_of(request)
        )
        return _answer(made, 201)


class CapacityDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str, capacity: int) -> None:
        capacities.require_recorder(policy_slug=policy, at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="get_capacity", responses=CapacitySerializer)
    def get(self, request: Request, policy: str, capacity: int) -> Response:
        """One capacity."""
        return _answer(_read_capacity(request, policy, capacity))

    @extend_schema(
        operation_id="change_capacity",
        parameters=[if_match_header("the capacity")],
        request=ChangedCapacitySerializer,
        responses=CapacitySerializer,
    )
    def patch(self, request: Request, policy: str, capacity: int) -> Response:
        """Change the given fields. Set `ends_on` when a machine is switched off."""
        _read_capacity(request, policy, capacity)
        tag, body = require_if_match(request, "capacity"), read_body(ChangedCapacitySerializer, request)
        body["per_hour"] = read_renamed(body, "per_hour", "cores", is_required=False)
        changed = capacities.change_capacity(
            policy_slug=policy,
            capacity_id=capacity,
            tag=tag,
            change=CapacityChange(**body),
            at=clock.now(),
            actor=actor_of(request),
        )
        return _answer(changed)

    @extend_schema(
        operation_id="remove_capacity",
        parameters=[if_match_header("the capacity"), ReasonFilterSerializer],
        responses={204: None},
    )
    def delete(self, request: Request, policy: str, capacity: int) -> Response:
        """Remove a capacity that was entered by mistake. Past periods no longer include it."""
        _read_capacity(request, policy, capacity)
        tag, query = require_if_match(request, "capacity"), read_query(ReasonFilterSerializer, request)
        capacities.remove_capacity(
            policy_slug=policy, capacity_id=capacity, tag=tag, **query, at=clock.now(), actor=actor_of(request)
        )
        return Response(status=204)


def _read_capacity(request: Request, policy: str, capacity: int) -> Capacity:
    return capacities.get_capacity(
        policy_slug=policy, capacity_id=capacity, at=clock.now(), actor=actor_of(request), visibility=load_visibility
    )


def _answer(capacity: Capacity, status: int = 200) -> Response:
    return with_etag(Response(CapacitySerializer(capacity).data, status=status), capacities.tag_of(capacity))
