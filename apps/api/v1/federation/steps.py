"""What people do about a mount or a subscription that exists: the same steps for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.api.v1.federation.serializers import (
    LONGEST_REASON,
    MANAGE,
    ActionSerializer,
    FetchSerializer,
    MountSerializer,
    PageSerializer,
    SubscriptionSerializer,
)
from apps.api.v1.runs import RunSerializer
from apps.api.v1.shapes import asked, decode_cursor, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.federation import control
from apps.federation.control import Kind
from apps.federation.mounts import services
from apps.federation.usage_feeds import subscriptions

SHAPES: dict[Kind, type[serializers.Serializer[Any]]] = {
    "mount": MountSerializer,
    "subscription": SubscriptionSerializer,
}
# Step → what is called, and what it means. Each asks for a reason, which the audit log keeps.
_STEPS: dict[str, tuple[Callable[..., Any], str]] = {
    "pause": (control.pause, "Stop fetching until it is resumed; the current content stays."),
    "resume": (control.resume, "Asked again at once, with what is trusted as it was."),
    "freeze": (control.freeze, "Keep fetching and checking, and apply nothing until it is thawed."),
    "thaw": (control.thaw, "Apply what was fetched while it was frozen, by the next fetch, due at once."),
    "begin-anew": (control.begin_anew, "Accept what is served now as a new start: after a fork, or a restored site."),
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
