"""Requests for allocations: who leads an entry requests hours, who decides about it grants, changes or declines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations import hours_requests
from apps.contrib.allocations.api.views import ENTRY, READ_WRITE
from apps.contrib.allocations.hours_requests import SeenRequest
from apps.contrib.allocations.models import AllocationRequest
from apps.contrib.allocations.services import AllocationTerms
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.core import clock
from apps.mapping.permissions import load_visibility
from apps.policies.operations.allocation_edits import MOST_ALLOCATED_AMOUNT
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL
from apps.web.rest.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.inputs import read_body, require_seen_tree, visible_entry_uid
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView

_WRITE: Scopes = {"POST": frozenset({POLICIES_WRITE})}


class AllocationRequestSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField(source="request.uid")
    entry = serializers.UUIDField(source="request.entry_uid")
    path = serializers.CharField()
    state = serializers.ChoiceField(AllocationRequest.State.choices, source="request.state")
    amount = serializers.FloatField(source="request.amount", help_text="In hours of the unit")
    unit = serializers.CharField(source="request.unit", help_text="Symbol of a unit of the policy, such as core-h")
    starts_on = serializers.DateField(source="request.starts_on")
    ends_on = serializers.DateField(source="request.ends_on", help_text="Last day")
    reason = serializers.CharField(source="request.reason")
    author = serializers.CharField(source="request.author_name")
    created_at = UtcTimeField(source="request.created_at")
    may_decide = serializers.BooleanField(help_text="Whether it is open, and the caller may grant or decline it")
    answer = serializers.CharField(source="request.answer", help_text="Of who decided")
    decided_by = serializers.CharField(source="request.decided_name", help_text='"" while it is open')
    decided_at = UtcTimeField(source="request.decided_at", allow_null=True)
    granted_amount = serializers.FloatField(
        source="request.granted_amount", allow_null=True, help_text="null: it was not granted"
    )
    allocation = serializers.UUIDField(
        source="request.allocation_uid", allow_null=True, help_text="That a grant made; null: none did"
    )


class NewAllocationRequestSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(**ENTRY)
    amount = serializers.FloatField(min_value=0, max_value=MOST_ALLOCATED_AMOUNT, help_text="In hours of the unit")
    unit = serializers.CharField(max_length=LONGEST_SYMBOL, required=False, default=CORE_HOUR.symbol)
    starts_on = serializers.DateField()
    ends_on = serializers.DateField()
    reason = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON)


class GrantSerializer(serializers.Serializer[Any]):
    amount = serializers.FloatField(
        min_value=0, max_value=MOST_ALLOCATED_AMOUNT, required=False, help_text="Instead of the requested amount"
    )
    starts_on = serializers.DateField(required=False, help_text="Instead of the requested day")
    ends_on = serializers.DateField(required=False, help_text="Instead of the requested day")
    text = serializers.CharField(
        max_length=LONGEST_ALLOCATION_REASON,
        required=False,
        default="",
        allow_blank=True,
        help_text="The answer, and the reason of the allocation; without one the request's reason",
    )


class DeclineSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON, help_text="The answer")


class AllocationRequestListView(APIView):
    scopes: ClassVar[Scopes] = {method: READ_WRITE[method] for method in ("GET", "POST")}

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(operation_id="list_allocation_requests", responses=list_schema(AllocationRequestSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """Requests that the caller sent, or may decide about: the newest 100."""
        rows = hours_requests.list_requests(
            policy_slug=policy, at=clock.now(), actor=actor_of(request), visibility=load_visibility
        )
        return list_response(AllocationRequestSerializer(rows, many=True).data)

    @extend_schema(
        operation_id="request_allocation",
        request=NewAllocationRequestSerializer,
        responses={201: AllocationRequestSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """Request an allocation for an entry that the caller manages. Managers above it get it in their inbox."""
        body = read_body(NewAllocationRequestSerializer, request)
        entry = visible_entry_uid(request, policy, body.pop("entry"))
        made = hours_requests.request_hours(
            policy_slug=policy,
            entry_uid=entry,
            terms=AllocationTerms(**body),
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )
        return _answer(request, policy, made.uid, 201)


class DecisionView(APIView):
    """Of a request, by who may decide about it."""

    scopes: ClassVar[Scopes] = _WRITE

    def before_body(self, request: Request, *, policy: str, asked: UUID) -> None:
        hours_requests.require_decider(
            policy_slug=policy,
            request_uid=asked,
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )


class GrantView(DecisionView):
    @extend_schema(
        operation_id="grant_allocation_request", request=GrantSerializer, responses=AllocationRequestSerializer
    )
    def post(self, request: Request, policy: str, asked: UUID) -> Response:
        """Make the requested allocation, or one of another amount or days."""
        return _decided(request, policy, asked, hours_requests.grant_hours, read_body(GrantSerializer, request))


class DeclineView(DecisionView):
    @extend_schema(
        operation_id="decline_allocation_request", request=DeclineSerializer, responses=AllocationRequestSerializer
    )
    def post(self, request: Request, policy: str, asked: UUID) -> Response:
        """Decline a request, with an answer."""
        return _decided(request, policy, asked, hours_requests.decline_hours, read_body(DeclineSerializer, request))


class WithdrawView(APIView):
    scopes: ClassVar[Scopes] = _WRITE

    @extend_schema(operation_id="withdraw_allocation_request", request=None, responses=AllocationRequestSerializer)
    def post(self, request: Request, policy: str, asked: UUID) -> Response:
        """Withdraw one's own open request."""
        return _decided(request, policy, asked, hours_requests.withdraw_hours_request, {})


def _decided(
    request: Request,
    policy: str,
    asked: UUID,
    decide: Callable[..., AllocationRequest],
    body: dict[str, Any],
) -> Response:
    decide(
        policy_slug=policy,
        request_uid=asked,
        **body,
        at=clock.now(),
        actor=actor_of(request),
        visibility=load_visibility,
    )
    return _answer(request, policy, asked)


def _answer(request: Request, policy: str, asked: UUID, status: int = 200) -> Response:
    row: SeenRequest = hours_requests.get_request(
        policy_slug=policy, request_uid=asked, at=clock.now(), actor=actor_of(request), visibility=load_visibility
    )
    return Response(AllocationRequestSerializer(row).data, status=status)
