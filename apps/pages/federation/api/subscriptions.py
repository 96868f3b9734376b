"""Subscriptions to usage feeds of other sites: preview, list, subscribe, change, held hours, capacity."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.federation import control
from apps.federation.grid.peers import require_mountable
from apps.federation.usage_feeds import subscriptions
from apps.federation.usage_feeds.subscriptions import FeedPreview
from apps.pages.federation.api.remotes import (
    MANAGE,
    RemoteView,
    SettingsSerializer,
    SubscriptionSerializer,
    split_settings,
    token_field,
)
from apps.policies.access.scope import require_scope
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView

_ENTRY = "Path of an entry that is mounted, below a mount, or published here"


class FeedPreviewRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text=_ENTRY)
    url = serializers.CharField(max_length=bounds.URL)
    token = token_field()


_HEAD = ("issuer", "feed", "site", "entry", "number", "more", "capacity_cores", "issued_at", "expires_at")
FeedPreviewSerializer = record_serializer(
    FeedPreview,
    only=("url", "fingerprint", *_HEAD, "n_entries", "n_hours", "n_running"),
    renamed={
        "fingerprint": "key.fingerprint",
        **{name: f"document.head.{name}" for name in _HEAD},
        "entry": "document.head.root",
    },
    texts={
        "fingerprint": "Compare it with the fingerprint that the site sent through another channel",
        "entry": "uid of the entry whose usage the feed reports",
        "more": "More documents follow",
        "capacity_cores": "Capacity that the site declares",
        "n_running": "Number of running jobs; null: not reported",
    },
)


class NewSubscriptionSerializer(SettingsSerializer):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text=_ENTRY)
    url = serializers.CharField(max_length=bounds.URL)
    issuer = serializers.CharField(max_length=bounds.ISSUER)
    feed = serializers.CharField(max_length=bounds.SUBSCRIBED_FEED)
    fingerprint = serializers.CharField(
        max_length=bounds.FINGERPRINT, help_text="Fingerprint of its key, after a comparison through another channel"
    )
    capacity_cores = serializers.FloatField(help_text="Agreed capacity of that site; hours with more usage are held")
    token = token_field()
    reason = serializers.CharField(max_length=bounds.REASON)


class ChangedSubscriptionSerializer(SettingsSerializer):
    token = serializers.CharField(
        max_length=bounds.BEARER_TOKEN, required=False, allow_blank=True, help_text='New token; "": none'
    )
    reason = serializers.CharField(max_length=bounds.REASON)


class CapacityAgreementSerializer(serializers.Serializer[Any]):
    cores = serializers.FloatField()
    reason = serializers.CharField(max_length=bounds.REASON)


class HeldHourSerializer(serializers.Serializer[Any]):
    hour_at = UtcTimeField()
    number = serializers.IntegerField(help_text="Number of the document that reported it")
    cpu_s = serializers.FloatField(help_text="Reported core-seconds")
    most_cpu_s = serializers.FloatField(help_text="Core-seconds that the agreed capacity allows")
    found_at = UtcTimeField()


class FeedPreviewView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    on_repeat = "work"

    def before_body(self, request: Request) -> None:
        require_scope(actor_of(request), "federation")
        require_mountable(at=clock.now(), actor=actor_of(request))

    @extend_schema(
        operation_id="preview_subscription", request=FeedPreviewRequestSerializer, responses=FeedPreviewSerializer
    )
    def post(self, request: Request) -> Response:
        """Fetch a feed and preview it, before its key is trusted. Nothing is stored."""
        body = read_body(FeedPreviewRequestSerializer, request)
        preview = subscriptions.preview_feed(
            policy_slug=body.pop("policy"), **body, at=clock.now(), actor=actor_of(request)
        )
        return Response(FeedPreviewSerializer(preview).data)


class SubscriptionListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = MANAGE

    def before_body(self, request: Request) -> None:
        require_scope(actor_of(request), "federation")
        require_mountable(at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="list_subscriptions", responses=list_schema(SubscriptionSerializer))
    def get(self, request: Request) -> Response:
        """Subscriptions that the caller manages. Tokens also need the scope `federation`."""
        now = clock.now()
        own_subscriptions = subscriptions.list_subscriptions(actor=actor_of(request), at=now)
        return list_response(SubscriptionSerializer(own_subscriptions, many=True, context={"at": now}).data)

    @extend_schema(operation_id="subscribe", request=NewSubscriptionSerializer, responses={201: SubscriptionSerializer})
    def post(self, request: Request) -> Response:
        """Subscribe to an entry's usage at another site, and trust the key of this fingerprint."""
        body = read_body(NewSubscriptionSerializer, request)
        settings = split_settings(body, SettingsSerializer)
        now = clock.now()
        made = subscriptions.subscribe(
            policy_slug=body.pop("policy"), **body, settings=settings, at=now, actor=actor_of(request)
        )
        return Response(SubscriptionSerializer(made, context={"at": now}).data, status=201)


class SubscriptionDetailView(RemoteView):
    scopes: ClassVar[Scopes] = MANAGE
    kind = "subscription"

    @extend_schema(operation_id="get_subscription", responses=SubscriptionSerializer)
    def get(self, request: Request, **_: int) -> Response:
        """One subscription with its number, age, capacity and held hours."""
        return self.answer(control.get_remote(**self.named(request)))

    @extend_schema(
        operation_id="change_subscription", request=ChangedSubscriptionSerializer, responses=SubscriptionSerializer
    )
    def patch(self, request: Request, **_: int) -> Response:
        """Change limits, interval or token. Omitted values do not change."""
        return self.change(request, ChangedSubscriptionSerializer)


class HeldHourListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="list_held_hours", responses=list_schema(HeldHourSerializer))
    def get(self, request: Request, subscription: int) -> Response:
        """Hours with more usage than the agreed capacity, which do not count; newest first, at most 1,000."""
        row = subscriptions.get_subscription(subscription_id=subscription, actor=actor_of(request), at=clock.now())
        return list_response(HeldHourSerializer(row.held_hours.order_by("-hour_at")[:1_000], many=True).data)


class CapacityAgreementView(RemoteView):
    kind = "subscription"

    @extend_schema(operation_id="agree_capacity", request=CapacityAgreementSerializer, responses=SubscriptionSerializer)
    def post(self, request: Request, subscription: int) -> Response:
        """Change the agreed capacity of the site. All its usage is read again, and held hours within it count."""
        body = read_body(CapacityAgreementSerializer, request)
        row = control.agree_capacity(subscription=subscription, **body, at=clock.now(), actor=actor_of(request))
        return self.answer(row)
