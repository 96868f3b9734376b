"""Charges of single jobs in a policy with their arithmetic."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.priorities.charges import list_charges
from apps.web import bounds
from apps.web.listings.charge_listing import ChargeSerializer
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.inputs import read_query
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView

_PAGE = 50


class ChargeFilterSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(
        max_length=bounds.JOB_AND_TASK, required=False, help_text="Job number; 12_3 or 12[3] for a task of an array"
    )
    source = serializers.CharField(max_length=bounds.SOURCE_SLUG, required=False)  # type: ignore[assignment]  # a name of ours
    account = serializers.CharField(max_length=bounds.ACCOUNT, required=False, help_text="A user name or DN")
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False)


class ChargeListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})}

    @extend_schema(
        operation_id="list_charges", parameters=[ChargeFilterSerializer], responses=list_schema(ChargeSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Jobs with their charges, newest first: the caller's own jobs; with `job`, `account` or `source` also jobs of
        people whose names the caller may read.

        Amounts are in the policy's metric at the instant of the newest snapshot, and add up to its usage.
        """
        query = read_query(ChargeFilterSerializer, request)
        page = list_charges(
            policy_slug=policy,
            job=query.get("job", ""),
            source=query.get("source", ""),
            account=query.get("account", ""),
            before=read_cursor(query),
            limit=_PAGE,
            actor=actor_of(request),
        )
        return list_response(ChargeSerializer(page.jobs, many=True).data, page.next_before)
