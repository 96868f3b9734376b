"""Limits of accounts: bounds that the scheduler's owner gives, approval by a second person, and what is set."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agent.limits import MOST_NAMED_ACCOUNTS
from apps.contrib.schedulers import bounds as of_schedulers
from apps.contrib.schedulers.limit_settings import approve_limits, change_limit_settings, request_limits
from apps.contrib.schedulers.limit_table import AccountLimitRow, LimitTable, get_limit_table
from apps.contrib.schedulers.permissions import require_manage
from apps.contrib.schedulers.services import find_to_change
from apps.core import clock
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField
from apps.web.rest.views import APIView

READ = frozenset({POLICIES_READ, POLICIES_WRITE})
WRITE = frozenset({POLICIES_WRITE})

AccountLimitSerializer = record_serializer(AccountLimitRow, component="AccountLimit")


class AccountLimitsSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(help_text="Identifies these bounds in a change, a request or an approval")
    accounts = serializers.ListField(child=serializers.CharField(), help_text="No other account gets a limit")
    canary_account = serializers.CharField(allow_null=True)
    percent_a_day = serializers.IntegerField(
        help_text="Part of the named accounts that may get a limit in 24 hours; one at least unless it is 0"
    )
    lapse_s = serializers.IntegerField(help_text="The agent restores all limits after so long without newer orders")
    requested_at = UtcTimeField(allow_null=True, help_text="Since when a second person is asked; null: not now")
    requested_by = serializers.CharField(allow_null=True)
    approved_accounts = serializers.ListField(child=serializers.CharField())
    approved_percent_a_day = serializers.IntegerField(
        allow_null=True, help_text="Outside shadow mode, no larger part gets a limit; null: nothing is approved"
    )
    approved_lapse_s = serializers.IntegerField(
        allow_null=True, help_text="Outside shadow mode, limits last no longer; null: nothing is approved"
    )
    approved_at = UtcTimeField(allow_null=True)
    approved_by = serializers.CharField(allow_null=True)
    cluster = serializers.CharField()
    taken_at = UtcTimeField(allow_null=True, help_text="When the agent last read the limits; null: never")
    lapses_at = UtcTimeField(allow_null=True, help_text="When the agent restores all limits without newer orders")
    ended_at = UtcTimeField(allow_null=True, help_text="When limits were ended on the scheduler's host")
    ended_by = serializers.CharField(allow_null=True)
    limits = AccountLimitSerializer(many=True)


class ChangedLimitsSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(max_length=of_schedulers.TAG)
    accounts = BoundedListField(
        child=serializers.CharField(max_length=of_schedulers.ACCOUNT), required=False, max_length=MOST_NAMED_ACCOUNTS
    )
    canary_account = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, max_length=of_schedulers.ACCOUNT
    )
    percent_a_day = serializers.IntegerField(required=False)
    lapse_s = serializers.IntegerField(required=False)


class LimitsTagSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(max_length=of_schedulers.TAG)


class _LimitsView(APIView):
    reach = "objects"

    def before_body(self, request: Request, *, scheduler: str) -> None:
        at, actor = clock.now(), actor_of(request)
        require_manage(find_to_change(scheduler, actor, at).policy, actor, at)


class LimitsView(_LimitsView):
    scopes: ClassVar[Scopes] = {"GET": READ, "PATCH": WRITE}

    @extend_schema(operation_id="get_scheduler_limits", responses=AccountLimitsSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Limits of named accounts: what they should have and why, what is set, and when it lapses."""
        return _answer(request, scheduler)

    @extend_schema(
        operation_id="change_scheduler_limits", request=ChangedLimitsSerializer, responses=AccountLimitsSerializer
    )
    def patch(self, request: Request, scheduler: str) -> Response:
        """Change the given bounds. Further accounts and wider bounds need an approval of their own."""
        body = read_body(ChangedLimitsSerializer, request)
        tag = body.pop("tag")
        change_limit_settings(name=scheduler, tag=tag, changes=body, at=clock.now(), actor=actor_of(request))
        return _answer(request, scheduler)


class LimitsRequestView(_LimitsView):
    scopes: ClassVar[Scopes] = {"POST": WRITE}

    @extend_schema(
        operation_id="request_scheduler_limits", request=LimitsTagSerializer, responses=AccountLimitsSerializer
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Ask a second person to approve the named accounts and the bounds."""
        tag = read_body(LimitsTagSerializer, request)["tag"]
        request_limits(name=scheduler, tag=tag, at=clock.now(), actor=actor_of(request))
        return _answer(request, scheduler)


class LimitsApprovalView(_LimitsView):
    scopes: ClassVar[Scopes] = {"POST": WRITE}

    @extend_schema(
        operation_id="approve_scheduler_limits", request=LimitsTagSerializer, responses=AccountLimitsSerializer
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Approve the requested accounts and bounds, as another person than the one who asked."""
        tag = read_body(LimitsTagSerializer, request)["tag"]
        approve_limits(name=scheduler, tag=tag, at=clock.now(), actor=actor_of(request))
        return _answer(request, scheduler)


def _answer(request: Request, name: str) -> Response:
    table = get_limit_table(name=name, at=clock.now(), actor=actor_of(request))
    return Response(AccountLimitsSerializer(_content(table)).data)


def _content(table: LimitTable) -> dict[str, Any]:
    settings, listing = table.settings, table.listing
    return {
        "tag": table.tag,
        **{name: getattr(settings, name) for name in ("accounts", "percent_a_day", "lapse_s", "approved_accounts")},
        "canary_account": settings.canary_account or None,
        "requested_at": settings.requested_at,
        "requested_by": settings.requested_by_name or None,
        "approved_percent_a_day": settings.approved_percent_a_day,
        "approved_lapse_s": settings.approved_lapse_s,
        "approved_at": settings.approved_at,
        "approved_by": settings.approved_by_name or None,
        "cluster": listing.cluster if listing else "",
        "taken_at": listing.taken_at if listing else None,
        "lapses_at": listing.lapses_at if listing else None,
        "ended_at": listing.ended_at if listing else None,
        "ended_by": (listing.ended_by or None) if listing else None,
        "limits": table.rows,
    }
