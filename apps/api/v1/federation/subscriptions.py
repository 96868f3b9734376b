"""Subscriptions to usage feeds of other sites, and the actions that mounts and subscriptions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.api.inputs import read_body, read_cursor, read_query
from apps.api.records import record_serializer
from apps.api.shapes import UtcTimeField, first_page, list_response, list_schema
from apps.api.v1.federation.mounts import (
    LONGEST_REASON,
    MANAGE,
    SHAPES,
    ActionSerializer,
    FetchSerializer,
    PageSerializer,
    RemoteView,
    SettingsSerializer,
    SubscriptionSerializer,
    split_settings,
    token_field,
)
from apps.api.v1.runs import RunSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.federation import control
from apps.federation.control import Kind
from apps.federation.usage_feeds import subscriptions
from apps.federation.usage_feeds.subscriptions import FeedPreview

_ENTRY = "Path of an entry that is mounted, below a mount, or published here"


class FeedPreviewRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, help_text=_ENTRY)
    url = serializers.CharField(max_length=2048)
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
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, help_text=_ENTRY)
    url = serializers.CharField(max_length=2048)
    issuer = serializers.CharField(max_length=128)
    feed = serializers.CharField(max_length=128)
    fingerprint = serializers.CharField(
        max_length=200, help_text="Fingerprint of its key, after a comparison through another channel"
    )
    capacity_cores = serializers.FloatField(help_text="Agreed capacity of that site; hours with more usage are held")
    token = token_field()
    reason = serializers.CharField(max_length=LONGEST_REASON)


class ChangedSubscriptionSerializer(SettingsSerializer):
    token = serializers.CharField(max_length=4000, required=False, allow_blank=True, help_text='New token; "": none')
    reason = serializers.CharField(max_length=LONGEST_REASON)


class CapacityAgreementSerializer(serializers.Serializer[Any]):
    cores = serializers.FloatField()
    reason = serializers.CharField(max_length=LONGEST_REASON)


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

    @extend_schema(
        operation_id="preview_subscription", request=FeedPreviewRequestSerializer, responses=FeedPreviewSerializer
    )
    def post(self, request: Request) -> Response:
        """Fetch a feed and preview it, before its key is trusted. Nothing is stored."""
        given = read_body(FeedPreviewRequestSerializer, request)
        found = subscriptions.preview_feed(
            policy_slug=given.pop("policy"), **given, at=clock.now(), actor=actor_of(request)
        )
        return Response(FeedPreviewSerializer(found).data)


class SubscriptionListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="list_subscriptions", responses=list_schema(SubscriptionSerializer))
    def get(self, request: Request) -> Response:
        """Subscriptions that the caller manages. Tokens also need the scope `federation`."""
        now = clock.now()
        found = subscriptions.list_subscriptions(actor=actor_of(request), at=now)
        return list_response(SubscriptionSerializer(found, many=True, context={"at": now}).data)

    @extend_schema(operation_id="subscribe", request=NewSubscriptionSerializer, responses={201: SubscriptionSerializer})
    def post(self, request: Request) -> Response:
        """Subscribe to an entry's usage at another site, and trust the key of this fingerprint."""
        given = read_body(NewSubscriptionSerializer, request)
        settings = split_settings(given, SettingsSerializer)
        now = clock.now()
        made = subscriptions.subscribe(
            policy_slug=given.pop("policy"), **given, settings=settings, at=now, actor=actor_of(request)
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
        given = read_body(CapacityAgreementSerializer, request)
        row = control.agree_capacity(subscription=subscription, **given, at=clock.now(), actor=actor_of(request))
        return self.answer(row)


# --- Actions on a mount or a subscription -----------------------------------------------------------------------------
# By step: the service, and the description in OpenAPI. Each needs a reason for the audit log.
_STEPS: dict[str, tuple[Callable[..., Any], str]] = {
    "pause": (control.pause, "Stop fetching until it is resumed. The current content stays."),
    "resume": (control.resume, "Resume fetching at once. The trusted key stays."),
    "freeze": (control.freeze, "Keep fetching and checking, but apply nothing until it is unfrozen (`unfreeze`)."),
    "unfreeze": (control.unfreeze, "Apply documents again. The next fetch is due at once."),
    "reset-history": (
        control.reset_history,
        "Accept the current document as a new history, after a fork or a restore from backup at the other site.",
    ),
}


class TrustKeySerializer(serializers.Serializer[Any]):
    fingerprint = serializers.CharField(
        max_length=200, help_text="Fingerprint, after a comparison through another channel"
    )
    reason = serializers.CharField(max_length=LONGEST_REASON)


class NoteSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=LONGEST_REASON, required=False, default="", allow_blank=True)


_FETCHES = list_schema(FetchSerializer)


def step_view(kind: Kind, step: str) -> type[RemoteView]:
    action, meaning = _STEPS[step]

    def post(self: RemoteView, request: Request, **_: int) -> Response:
        return self.answer(action(reason=read_body(ActionSerializer, request)["reason"], **self.named(request)))

    post.__doc__ = meaning
    described = extend_schema(
        operation_id=f"{step.replace('-', '_')}_{kind}", request=ActionSerializer, responses=SHAPES[kind]
    )(post)
    return _named_view(f"{step.title().replace('-', '')}View", kind, {"post": described})


def trust_key_view(kind: Kind) -> type[RemoteView]:
    def post(self: RemoteView, request: Request, **_: int) -> Response:
        """Trust another key, after a comparison through another channel."""
        return self.answer(control.trust_key(**read_body(TrustKeySerializer, request), **self.named(request)))

    described = extend_schema(operation_id=f"trust_key_of_{kind}", request=TrustKeySerializer, responses=SHAPES[kind])(
        post
    )
    return _named_view("TrustKeyView", kind, {"post": described})


def fetch_view(kind: Kind) -> type[RemoteView]:
    def post(self: RemoteView, request: Request, **_: int) -> Response:
        """Fetch now, ahead of the interval. Returns the background run."""
        given = read_body(NoteSerializer, request)
        run = control.fetch_now(reason=given["reason"], **self.named(request))
        return Response(RunSerializer(run).data, status=202)

    described = extend_schema(operation_id=f"fetch_{kind}", request=NoteSerializer, responses={202: RunSerializer})(
        post
    )
    return _named_view("FetchNowView", kind, {"post": described})


def timeline_view(kind: Kind) -> type[RemoteView]:
    def get(self: RemoteView, request: Request, **_: int) -> Response:
        """Results of its fetches, newest first; the last 500 are stored."""
        given = read_query(PageSerializer, request)
        fetches = control.get_remote(**self.named(request)).fetches.order_by("-id")
        before = read_cursor(given)
        if before is not None:
            fetches = fetches.filter(id__lt=before)
        page, last = first_page(list(fetches[: given["limit"] + 1]), given["limit"], lambda fetch: fetch.pk)
        return list_response(FetchSerializer(page, many=True).data, last)

    described = extend_schema(operation_id=f"list_fetches_of_{kind}", parameters=[PageSerializer], responses=_FETCHES)(
        get
    )
    return _named_view("TimelineView", kind, {"get": described, "scopes": MANAGE})


def end_view(kind: Kind) -> type[RemoteView]:
    def post(self: RemoteView, request: Request, **_: int) -> Response:
        control.remove(reason=read_body(ActionSerializer, request)["reason"], **self.named(request))
        return Response(status=204)

    name, meaning = {
        "mount": ("unmount", "Remove a mount. Its entries stay, under local control."),
        "subscription": ("unsubscribe", "Remove a subscription and all its usage: sums, running jobs and the source."),
    }[kind]
    post.__doc__ = meaning
    described = extend_schema(operation_id=name, request=ActionSerializer, responses={204: None})(post)
    return _named_view("EndView", kind, {"post": described})


def _named_view(name: str, kind: Kind, members: dict[str, Any]) -> type[RemoteView]:
    return type(f"{kind.title()}{name}", (RemoteView,), {"kind": kind, "__module__": __name__, **members})
