"""What mounts and subscriptions share: their fields, settings, fetch log, and the actions on one of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.federation import control
from apps.federation.conditions import age_of
from apps.federation.fetch_requests import AnyRemote, Kind
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.mounts.services import SETTING_BOUNDS
from apps.federation.usage_feeds.usage_ingest import MOST_UNKNOWN, unknown_entries
from apps.policies.tree.stored import load_tree
from apps.web import bounds
from apps.web.rest.authentication import ADMIN, POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.inputs import read_body, read_query
from apps.web.rest.records import keeps_old_names
from apps.web.rest.runs import RunSerializer
from apps.web.rest.shapes import ProblemCodeSerializer, UtcTimeField, first_page, list_response, list_schema
from apps.web.rest.views import APIView

# Tokens of peers have the scope `federation` only, which allows none of this.
MANAGE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
ADMINISTER: Scopes = {method: frozenset({ADMIN}) for method in ("GET", "POST", "DELETE")}

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


class RemoteSerializer(serializers.Serializer[Any]):
    """Fields that mounts and subscriptions share. The token for the other site is never shown."""

    id = serializers.IntegerField()
    policy = serializers.CharField(source="policy.slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text='Current path of the entry; "": it is archived')
    url = serializers.CharField()
    issuer = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Fingerprint of the trusted key")
    has_token = serializers.SerializerMethodField()
    state = serializers.ChoiceField(Remote.State.choices)
    issued_at = UtcTimeField(allow_null=True, help_text="Issue date of the newest valid document")
    expires_at = UtcTimeField(allow_null=True, help_text="Until when that document is valid")
    fetched_at = UtcTimeField(allow_null=True, help_text="Time of the last fetch")
    good_at = UtcTimeField(allow_null=True, help_text="Time of the last successful fetch")
    age_s = serializers.SerializerMethodField(help_text="Seconds since the last successful fetch; null: none yet")
    due_at = UtcTimeField(allow_null=True, help_text="Time of the next fetch")
    trouble = serializers.SerializerMethodField(help_text="Error of the last fetch; null: it succeeded")
    n_failed = serializers.IntegerField(help_text="Number of failed fetches in a row")
    every_s = serializers.IntegerField(help_text="Interval between fetches")
    max_age_s = serializers.IntegerField(help_text="Age beyond which the data is stale")
    stale_action = serializers.ChoiceField(Remote.StaleAction.choices, help_text="What happens when the data is stale")
    most_bytes = serializers.IntegerField(help_text="Size limit of a document")
    created_at = UtcTimeField(source="made_at")

    def get_path(self, remote: Mount | Subscription) -> str:
        tree = load_tree(remote.policy)
        i = tree.index_of_uid(remote.entry_uid)
        return "" if i is None else tree.path(i)

    def get_has_token(self, remote: Remote) -> bool:
        return bool(remote.sealed_token)

    def get_age_s(self, remote: Remote) -> float | None:
        at: datetime = self.context["at"]
        return age_of(remote, at)

    @extend_schema_field(ProblemCodeSerializer(allow_null=True))
    def get_trouble(self, remote: Remote) -> dict[str, str] | None:
        return {"code": remote.error_code, "message": remote.error} if remote.error_code else None


@keeps_old_names
class MountSerializer(RemoteSerializer):
    publication = serializers.CharField()
    version = serializers.IntegerField(help_text="Newest valid version; 0: none yet")
    applied_version = serializers.IntegerField(help_text="Version that is published in this policy; 0: none yet")
    held = serializers.IntegerField(
        source="held_id", allow_null=True, help_text="Change set that is held for review; null: none"
    )
    issuers = serializers.ListField(
        child=serializers.CharField(), help_text="Authorities whose publications are mounted in this one"
    )
    most_points = serializers.FloatField(help_text="Largest change of a target that is published without review")
    most_entries = serializers.IntegerField(help_text="Greatest number of entries")
    most_levels = serializers.IntegerField(help_text="Greatest number of levels")
    keep_usage = serializers.BooleanField(help_text="Map accounts of removed entries to the mount's entry")


@keeps_old_names
class SubscriptionSerializer(RemoteSerializer):
    feed = serializers.CharField()
    number = serializers.IntegerField(help_text="Number of the last ingested document; 0: none yet")
    source = serializers.CharField(source="source.slug")  # type: ignore[assignment]  # a name of ours
    capacity_cores = serializers.FloatField(help_text="Agreed capacity; hours with more usage are held")
    reported_capacity_cores = serializers.FloatField(allow_null=True, help_text="Capacity that the site declares now")
    enforced_version = serializers.IntegerField(
        allow_null=True, help_text="Version of our publication that is active at that site"
    )
    running_held = serializers.BooleanField(
        help_text="Usage of running jobs does not count: they use more than the capacity"
    )
    is_left_behind = serializers.BooleanField(help_text="More documents are waiting to be fetched")
    n_held_hours = serializers.SerializerMethodField(help_text="Number of hours held for usage above the capacity")
    unknown_entries = serializers.SerializerMethodField(
        help_text=f"uids that the site reports usage of and this policy doesn't have, at most {MOST_UNKNOWN:,}; "
        "their usage counts nowhere until an entry with the uid appears"
    )

    def get_n_held_hours(self, remote: Subscription) -> int:
        return remote.held_hours.count()

    def get_unknown_entries(self, remote: Subscription) -> list[UUID]:
        return unknown_entries(remote)


SHAPES: dict[Kind, type[serializers.Serializer[Any]]] = {
    "mount": MountSerializer,
    "subscription": SubscriptionSerializer,
}


def setting_field(name: str) -> serializers.IntegerField | serializers.FloatField:
    """A number that the service checks; its range is in the description."""
    least, most = SETTING_BOUNDS[name]
    kind = serializers.FloatField if name == "most_points" else serializers.IntegerField
    return kind(required=False, help_text=f"{least:,} to {most:,}")


class SettingsSerializer(serializers.Serializer[Any]):
    """Checks types; `apps.federation` checks ranges."""

    every_s = setting_field("every_s")
    max_age_s = setting_field("max_age_s")
    stale_action = serializers.ChoiceField(Remote.StaleAction.choices, required=False)
    most_bytes = setting_field("most_bytes")


class ActionSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON)


class FetchSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = UtcTimeField()
    outcome = serializers.ChoiceField(Fetch.Outcome.choices)
    version = serializers.IntegerField(allow_null=True, help_text="Version of the document, or number in the feed")
    n_bytes = serializers.IntegerField()
    duration_s = serializers.FloatField()
    code = serializers.CharField()
    message = serializers.CharField()


class PageSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=bounds.PAGE_ROWS, required=False, default=50)


_FETCHES = list_schema(FetchSerializer)


def split_settings(body: dict[str, Any], kind: type[SettingsSerializer]) -> dict[str, Any]:
    """Move the settings out of `body` into a new dict."""
    names: list[str] = list(kind().get_fields())
    return {name: body.pop(name) for name in names if name in body}


def token_field() -> serializers.CharField:
    return serializers.CharField(
        max_length=bounds.BEARER_TOKEN,
        required=False,
        default="",
        allow_blank=True,
        help_text="Token issued by the other site; stored encrypted, never shown again",
    )


class RemoteView(APIView):
    """A view of a mount or a subscription. The route names its id like the kind."""

    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    kind: ClassVar[Kind]

    def named(self, request: Request) -> dict[str, Any]:
        return {"kind": self.kind, "remote_id": self.kwargs[self.kind], "at": clock.now(), "actor": actor_of(request)}

    def before_body(self, request: Request, **_names: int) -> None:
        control.get_remote(**self.named(request))

    def change(self, request: Request, body: type[serializers.Serializer[Any]]) -> Response:
        fields = read_body(body, request)
        reason, token = fields.pop("reason"), fields.pop("token", None)
        return self.answer(control.change_settings(settings=fields, token=token, reason=reason, **self.named(request)))

    def answer(self, remote: AnyRemote) -> Response:
        return Response(SHAPES[self.kind](remote, context={"at": clock.now()}).data)


class TrustKeySerializer(serializers.Serializer[Any]):
    fingerprint = serializers.CharField(
        max_length=bounds.FINGERPRINT, help_text="Fingerprint, after a comparison through another channel"
    )
    reason = serializers.CharField(max_length=bounds.REASON)


class NoteSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON, required=False, default="", allow_blank=True)


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
        body = read_body(NoteSerializer, request)
        run = control.fetch_now(reason=body["reason"], **self.named(request))
        return Response(RunSerializer(run).data, status=202)

    described = extend_schema(operation_id=f"fetch_{kind}", request=NoteSerializer, responses={202: RunSerializer})(
        post
    )
    return _named_view("FetchNowView", kind, {"post": described})


def timeline_view(kind: Kind) -> type[RemoteView]:
    def get(self: RemoteView, request: Request, **_: int) -> Response:
        """Results of its fetches, newest first; the last 500 are stored."""
        query = read_query(PageSerializer, request)
        fetches = control.get_remote(**self.named(request)).fetches.order_by("-id")
        before = read_cursor(query)
        if before is not None:
            fetches = fetches.filter(id__lt=before)
        page, last = first_page(list(fetches[: query["limit"] + 1]), query["limit"], lambda fetch: fetch.pk)
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
