"""Subscriptions to usage of other sites, held hours, capacity; and the steps that mounts and subscriptions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.api.shapes import UtcTimeField, asked, decode_cursor, list_of, listed, sent
from apps.api.v1.federation.mounts import (
    LONGEST_REASON,
    MANAGE,
    ActionSerializer,
    FetchSerializer,
    MountSerializer,
    PageSerializer,
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
from apps.federation.mounts import services
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


# --- Steps of a mount or a subscription -------------------------------------------------------------------------------
SHAPES: dict[Kind, type[serializers.Serializer[Any]]] = {
    "mount": MountSerializer,
    "subscription": SubscriptionSerializer,
}
# Step → what is called, and what it means. Each asks for a reason, which the audit log keeps.
_STEPS: dict[str, tuple[Callable[..., Any], str]] = {
    "pause": (control.pause, "Stop fetching until it is resumed; the current content stays."),
    "resume": (control.resume, "Asked again at once, with what is trusted as it was."),
    "freeze": (control.freeze, "Keep fetching and checking, but apply nothing until it is unfrozen."),
    "thaw": (control.unfreeze, "Apply what was fetched while it was frozen; the next fetch is due immediately."),
    "begin-anew": (
        control.reset_history,
        "Accept what is served now as a new history, after a fork or a restore.",
    ),
}


class TrustKeySerializer(serializers.Serializer[Any]):
    fingerprint = serializers.CharField(max_length=200, help_text="As compared through another channel")
    reason = serializers.CharField(max_length=LONGEST_REASON)


class NoteSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=LONGEST_REASON, required=False, default="", allow_blank=True)


_FETCHES = list_of(FetchSerializer)


class RemoteView(APIView):
    """`kind` says of which of the two; the id has its name in the route."""

    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    kind: ClassVar[Kind]

    def named(self, request: Request) -> dict[str, Any]:
        return {"kind": self.kind, "remote_id": self.kwargs[self.kind], "at": clock.now(), "actor": actor_of(request)}

    def answer(self, request: Request) -> Response:
        named = self.named(request)
        return Response(SHAPES[self.kind](control.get_remote(**named), context={"at": named["at"]}).data)


def step_view(kind: Kind, step: str) -> type[RemoteView]:
    action, meaning = _STEPS[step]

    def post(self: RemoteView, request: Request, **_: int) -> Response:
        action(reason=sent(ActionSerializer, request)["reason"], **self.named(request))
        return self.answer(request)

    post.__doc__ = meaning
    described = extend_schema(
        operation_id=f"{step.replace('-', '_')}_{kind}", request=ActionSerializer, responses=SHAPES[kind]
    )(post)
    return _named_view(f"{step.title().replace('-', '')}View", kind, {"post": described})


def trust_key_view(kind: Kind) -> type[RemoteView]:
    def post(self: RemoteView, request: Request, **_: int) -> Response:
        """Trust another key, which was compared through another channel."""
        control.trust_key(**sent(TrustKeySerializer, request), **self.named(request))
        return self.answer(request)

    described = extend_schema(operation_id=f"trust_key_of_{kind}", request=TrustKeySerializer, responses=SHAPES[kind])(
        post
    )
    return _named_view("TrustKeyView", kind, {"post": described})


def fetch_view(kind: Kind) -> type[RemoteView]:
    def post(self: RemoteView, request: Request, **_: int) -> Response:
        """Fetch it now, ahead of its interval. The answer is the run to follow."""
        given = sent(NoteSerializer, request)
        run = control.fetch_now(reason=given["reason"], **self.named(request))
        return Response(RunSerializer(run).data, status=202)

    described = extend_schema(operation_id=f"fetch_{kind}", request=NoteSerializer, responses={202: RunSerializer})(
        post
    )
    return _named_view("FetchNowView", kind, {"post": described})


def timeline_view(kind: Kind) -> type[RemoteView]:
    def get(self: RemoteView, request: Request, **_: int) -> Response:
        """Results of its fetches, newest first; the last 500 are kept."""
        given = asked(PageSerializer, request)
        fetches = control.get_remote(**self.named(request)).fetches.order_by("-id")
        if "cursor" in given:
            fetches = fetches.filter(id__lt=decode_cursor(given["cursor"], int))
        found = list(fetches[: given["limit"] + 1])
        shown = found[: given["limit"]]
        following = shown[-1].pk if len(found) > len(shown) else None
        return listed(FetchSerializer(shown, many=True).data, following)

    described = extend_schema(operation_id=f"list_fetches_of_{kind}", parameters=[PageSerializer], responses=_FETCHES)(
        get
    )
    return _named_view("TimelineView", kind, {"get": described, "scopes": MANAGE})


def end_view(kind: Kind) -> type[RemoteView]:
    def post(self: RemoteView, request: Request, **_: int) -> Response:
        named = self.named(request)
        reason = sent(ActionSerializer, request)["reason"]
        more: dict[str, Any] = {"reason": reason, "at": named["at"], "actor": named["actor"]}
        if kind == "mount":
            services.unmount(mount_id=named["remote_id"], **more)
        else:
            subscriptions.unsubscribe(subscription_id=named["remote_id"], **more)
        return Response(status=204)

    name, meaning = {
        "mount": ("unmount", "What lies below becomes ours, as it is now."),
        "subscription": ("unsubscribe", "Its usage is removed: sums, running jobs and the source."),
    }[kind]
    post.__doc__ = meaning
    described = extend_schema(operation_id=name, request=ActionSerializer, responses={204: None})(post)
    return _named_view("EndView", kind, {"post": described})


def _named_view(name: str, kind: Kind, members: dict[str, Any]) -> type[RemoteView]:
    return type(f"{kind.title()}{name}", (RemoteView,), {"kind": kind, "__module__": __name__, **members})
