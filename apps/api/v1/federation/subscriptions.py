"""Subscriptions to usage of other sites: previewed, made, changed; held hours and capacity."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.api.instants import UtcTimeField
from apps.api.v1.federation.serializers import (
    LONGEST_REASON,
    MANAGE,
    SettingsSerializer,
    SubscriptionSerializer,
    split_settings,
    token_field,
)
from apps.api.v1.shapes import list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.federation import control
from apps.federation.usage_feeds import subscriptions
from apps.federation.usage_feeds.subscriptions import FeedPreview

_ENTRY = "Its path: a mount, below one, or published here for others to mount"


class FeedPreviewRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, help_text=_ENTRY)
    url = serializers.CharField(max_length=2048)
    token = token_field()


class FeedPreviewSerializer(serializers.Serializer[Any]):
    url = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Compare it with what that site sent you through another channel")
    issuer = serializers.CharField()
    feed = serializers.CharField()
    site = serializers.CharField()
    entry = serializers.UUIDField(help_text="The site whose usage it reports")
    number = serializers.IntegerField()
    more = serializers.BooleanField(help_text="There is more than one document holds")
    capacity_cores = serializers.FloatField(help_text="As that site declares it")
    issued_at = UtcTimeField()
    expires_at = UtcTimeField()
    n_entries = serializers.IntegerField()
    n_hours = serializers.IntegerField()
    n_running = serializers.IntegerField(allow_null=True, help_text="Jobs that run now; null: not reported")


class NewSubscriptionSerializer(SettingsSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, help_text=_ENTRY)
    url = serializers.CharField(max_length=2048)
    issuer = serializers.CharField(max_length=128)
    feed = serializers.CharField(max_length=128)
    fingerprint = serializers.CharField(max_length=200, help_text="Of its key, after a comparison")
    capacity_cores = serializers.FloatField(help_text="What the caller agrees that site has")
    token = token_field()
    reason = serializers.CharField(max_length=LONGEST_REASON)


class ChangedSubscriptionSerializer(SettingsSerializer):
    token = serializers.CharField(
        max_length=4000, required=False, allow_blank=True, help_text='In place of the present one; "": none'
    )
    reason = serializers.CharField(max_length=LONGEST_REASON)


class CapacityAgreementSerializer(serializers.Serializer[Any]):
    cores = serializers.FloatField()
    reason = serializers.CharField(max_length=LONGEST_REASON)


class HeldHourSerializer(serializers.Serializer[Any]):
    hour_at = UtcTimeField()
    number = serializers.IntegerField(help_text="Of the document that reported it")
    cpu_s = serializers.FloatField(help_text="Told")
    most_cpu_s = serializers.FloatField(help_text="What the agreed capacity allows")
    found_at = UtcTimeField()


class FeedPreviewView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    on_repeat = "work"

    @extend_schema(
        operation_id="preview_subscription", request=FeedPreviewRequestSerializer, responses=FeedPreviewSerializer
    )
    def post(self, request: Request) -> Response:
        """Preview a feed before its key is trusted. Nothing is stored."""
        given = sent(FeedPreviewRequestSerializer, request)
        found = subscriptions.preview_feed(
            policy_slug=given.pop("policy"), **given, at=clock.now(), actor=actor_of(request)
        )
        return Response(FeedPreviewSerializer(_preview(found)).data)


class SubscriptionListView(APIView):
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="list_subscriptions", responses=list_of(SubscriptionSerializer))
    def get(self, request: Request) -> Response:
        """Those that the caller decides about; a token needs the scope `federation` besides."""
        now = clock.now()
        found = subscriptions.list_subscriptions(actor=actor_of(request), at=now)
        return listed(SubscriptionSerializer(found, many=True, context={"at": now}).data)

    @extend_schema(operation_id="subscribe", request=NewSubscriptionSerializer, responses={201: SubscriptionSerializer})
    def post(self, request: Request) -> Response:
        """Subscribe to an entry's usage at another site, under the key whose fingerprint was compared."""
        given = sent(NewSubscriptionSerializer, request)
        settings = split_settings(given, SettingsSerializer)
        now = clock.now()
        made = subscriptions.subscribe(
            policy_slug=given.pop("policy"), **given, settings=settings, at=now, actor=actor_of(request)
        )
        return Response(SubscriptionSerializer(made, context={"at": now}).data, status=201)


class SubscriptionDetailView(APIView):
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="get_subscription", responses=SubscriptionSerializer)
    def get(self, request: Request, subscription: int) -> Response:
        """Number, age, capacity and what is held."""
        return _answer(request, subscription)

    @extend_schema(
        operation_id="change_subscription", request=ChangedSubscriptionSerializer, responses=SubscriptionSerializer
    )
    def patch(self, request: Request, subscription: int) -> Response:
        """Limits and interval; omitted values stay."""
        given = sent(ChangedSubscriptionSerializer, request)
        reason, token = given.pop("reason"), given.pop("token", None)
        control.change_settings(
            kind="subscription",
            remote_id=subscription,
            settings=given,
            token=token,
            reason=reason,
            at=clock.now(),
            actor=actor_of(request),
        )
        return _answer(request, subscription)


class HeldHourListView(APIView):
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="list_held_hours", responses=list_of(HeldHourSerializer))
    def get(self, request: Request, subscription: int) -> Response:
        """Hours in which it reports more than its capacity, newest first: their sums don't count. At most 1,000."""
        row = subscriptions.get_subscription(subscription_id=subscription, actor=actor_of(request), at=clock.now())
        return listed(HeldHourSerializer(row.held_hours.order_by("-hour_at")[:1_000], many=True).data)


class CapacityAgreementView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="agree_capacity", request=CapacityAgreementSerializer, responses=SubscriptionSerializer)
    def post(self, request: Request, subscription: int) -> Response:
        """The agreed capacity of that site. All its usage is read again: held hours within it are released."""
        given = sent(CapacityAgreementSerializer, request)
        control.agree_capacity(
            subscription=subscription,
            cores=given["cores"],
            reason=given["reason"],
            at=clock.now(),
            actor=actor_of(request),
        )
        return _answer(request, subscription)


def _answer(request: Request, subscription: int) -> Response:
    now = clock.now()
    found = subscriptions.get_subscription(subscription_id=subscription, actor=actor_of(request), at=now)
    return Response(SubscriptionSerializer(found, context={"at": now}).data)


def _preview(found: FeedPreview) -> dict[str, Any]:
    document, head = found.document, found.document.head
    return {
        "url": found.url,
        "fingerprint": found.key.fingerprint,
        "issuer": head.issuer,
        "feed": head.feed,
        "site": head.site,
        "entry": head.root,
        "number": head.number,
        "more": head.more,
        "capacity_cores": head.capacity_cores,
        "issued_at": head.issued_at,
        "expires_at": head.expires_at,
        "n_entries": len(document.entries),
        "n_hours": len(document.hours),
        "n_running": None if document.running is None else len(document.running),
    }
