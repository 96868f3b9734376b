"""Mounts of other sites' policies: preview, list, mount, change; and serializers that subscriptions share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import ADMIN, POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.inputs import read_body
from apps.api.records import record_serializer
from apps.api.shapes import ProblemCodeSerializer, UtcTimeField, list_response, list_schema
from apps.api.views import APIView
from apps.core import clock
from apps.federation import control
from apps.federation.control import Kind
from apps.federation.fetch_requests import AnyRemote
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.mounts import services
from apps.federation.mounts.services import MOST_PREVIEWED, Preview, PreviewEntry
from apps.federation.staleness import age_of
from apps.mapping.moves import UnmappedUsage
from apps.policies.tree.stored import load_tree

# --- Serializers of mounts and subscriptions --------------------------------------------------------------------
# Tokens of peers have the scope `federation` only, which allows none of this.
MANAGE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
ADMINISTER: Scopes = {method: frozenset({ADMIN}) for method in ("GET", "POST", "DELETE")}
LONGEST_REASON = 4000


class RemoteSerializer(serializers.Serializer[Any]):
    """Fields that mounts and subscriptions share. The token for the other site is never shown."""

    id = serializers.IntegerField(source="pk")
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
    made_at = UtcTimeField()

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

    def get_n_held_hours(self, remote: Subscription) -> int:
        return remote.held_hours.count()


class SettingsSerializer(serializers.Serializer[Any]):
    """Checks types; `apps.federation` checks ranges."""

    every_s = serializers.IntegerField(required=False)
    max_age_s = serializers.IntegerField(required=False)
    stale_action = serializers.ChoiceField(Remote.StaleAction.choices, required=False)
    most_bytes = serializers.IntegerField(required=False)


class MountSettingsSerializer(SettingsSerializer):
    most_points = serializers.FloatField(required=False)
    most_entries = serializers.IntegerField(required=False)
    most_levels = serializers.IntegerField(required=False)
    keep_usage = serializers.BooleanField(
        required=False, help_text="Map accounts of removed entries to the mount's entry, so that their usage counts"
    )


class ActionSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=LONGEST_REASON)


class FetchSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="pk")
    at = UtcTimeField()
    outcome = serializers.ChoiceField(Fetch.Outcome.choices)
    version = serializers.IntegerField(allow_null=True, help_text="Version of the document, or number in the feed")
    n_bytes = serializers.IntegerField()
    duration_s = serializers.FloatField()
    code = serializers.CharField()
    message = serializers.CharField()


class PageSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=200, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False, default=50)


def split_settings(given: dict[str, Any], kind: type[SettingsSerializer]) -> dict[str, Any]:
    """Move the settings out of `given` into a new dict."""
    names: list[str] = list(kind().get_fields())
    return {name: given.pop(name) for name in names if name in given}


def token_field() -> serializers.CharField:
    return serializers.CharField(
        max_length=4000,
        required=False,
        default="",
        allow_blank=True,
        help_text="Token issued by the other site; stored encrypted, never shown again",
    )


# --- Views of both ----------------------------------------------------------------------------------------------------
SHAPES: dict[Kind, type[serializers.Serializer[Any]]] = {
    "mount": MountSerializer,
    "subscription": SubscriptionSerializer,
}


class RemoteView(APIView):
    """A view of a mount or a subscription. The route names its id like the kind."""

    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    kind: ClassVar[Kind]

    def named(self, request: Request) -> dict[str, Any]:
        return {"kind": self.kind, "remote_id": self.kwargs[self.kind], "at": clock.now(), "actor": actor_of(request)}

    def change(self, request: Request, body: type[serializers.Serializer[Any]]) -> Response:
        given = read_body(body, request)
        reason, token = given.pop("reason"), given.pop("token", None)
        return self.answer(control.change_settings(settings=given, token=token, reason=reason, **self.named(request)))

    def answer(self, remote: AnyRemote) -> Response:
        return Response(SHAPES[self.kind](remote, context={"at": clock.now()}).data)


# --- Routes -----------------------------------------------------------------------------------------------------------


class PreviewRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64, help_text="Policy in which it would be mounted")
    url = serializers.CharField(max_length=2048)
    entry = serializers.CharField(
        max_length=9000,
        required=False,
        default="",
        allow_blank=True,
        help_text="Path of the entry, to see which usage would be unmapped",
    )
    token = token_field()


UnmappedUsageSerializer = record_serializer(
    UnmappedUsage,
    only=("n_accounts", "core_s", "n_peer_entries"),
    texts={
        "n_accounts": "Accounts at entries that would be removed and that no rule would map",
        "core_s": "Usage of these accounts in the last 30 days, which would no longer count",
        "n_peer_entries": "Entries that would be removed and for which other sites report usage",
    },
)


PreviewEntrySerializer = record_serializer(PreviewEntry, texts={"shares": "null: inherited"})


_HEAD = ("issuer", "publication", "version", "issued_at", "expires_at", "issuers")
PreviewSerializer = record_serializer(
    Preview,
    only=("url", "fingerprint", *_HEAD, "n_entries", "n_levels", "name", "entries", "unmapped"),
    renamed={"fingerprint": "key.fingerprint", **{each: f"document.head.{each}" for each in _HEAD}},
    texts={"fingerprint": "Compare it with the fingerprint that the authority sent through another channel"},
    entries=PreviewEntrySerializer(many=True, help_text=f"Children of the root, at most {MOST_PREVIEWED}"),
    unmapped=UnmappedUsageSerializer(
        allow_null=True, help_text="Usage that would no longer count without `keep_usage`; null without `entry`"
    ),
)


class NewMountSerializer(MountSettingsSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(
        max_length=9000, help_text="Path of the entry; its own shares stay under local control"
    )
    url = serializers.CharField(max_length=2048)
    issuer = serializers.CharField(max_length=128)
    publication = serializers.CharField(max_length=128)
    fingerprint = serializers.CharField(
        max_length=200, help_text="Fingerprint of its key, after a comparison through another channel"
    )
    token = token_field()
    reason = serializers.CharField(max_length=LONGEST_REASON)


class ChangedMountSerializer(MountSettingsSerializer):
    token = serializers.CharField(max_length=4000, required=False, allow_blank=True, help_text='New token; "": none')
    reason = serializers.CharField(max_length=LONGEST_REASON)


class PreviewView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    on_repeat = "work"

    @extend_schema(operation_id="preview_mount", request=PreviewRequestSerializer, responses=PreviewSerializer)
    def post(self, request: Request) -> Response:
        """Fetch a publication and preview it, before its key is trusted. Nothing is stored."""
        given = read_body(PreviewRequestSerializer, request)
        found = services.preview(policy_slug=given.pop("policy"), **given, at=clock.now(), actor=actor_of(request))
        return Response(PreviewSerializer(found).data)


class MountListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="list_mounts", responses=list_schema(MountSerializer))
    def get(self, request: Request) -> Response:
        """Mounts that the caller manages. Tokens also need the scope `federation`."""
        now = clock.now()
        found = services.list_mounts(actor=actor_of(request), at=now)
        return list_response(MountSerializer(found, many=True, context={"at": now}).data)

    @extend_schema(operation_id="make_mount", request=NewMountSerializer, responses={201: MountSerializer})
    def post(self, request: Request) -> Response:
        """Mount a publication at an entry, and trust the key of this fingerprint.

        The publication is fetched at once, and published or held for review.
        """
        given = read_body(NewMountSerializer, request)
        settings = split_settings(given, MountSettingsSerializer)
        now = clock.now()
        made = services.make_mount(
            policy_slug=given.pop("policy"), **given, settings=settings, at=now, actor=actor_of(request)
        )
        return Response(MountSerializer(made, context={"at": now}).data, status=201)


class MountDetailView(RemoteView):
    scopes: ClassVar[Scopes] = MANAGE
    kind = "mount"

    @extend_schema(operation_id="get_mount", responses=MountSerializer)
    def get(self, request: Request, **_: int) -> Response:
        """One mount with its versions, age and limits."""
        return self.answer(control.get_remote(**self.named(request)))

    @extend_schema(operation_id="change_mount", request=ChangedMountSerializer, responses=MountSerializer)
    def patch(self, request: Request, **_: int) -> Response:
        """Change limits, interval or token. Omitted values do not change."""
        return self.change(request, ChangedMountSerializer)
