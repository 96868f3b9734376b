"""Mounts of other policies: previewed, mounted, changed, their timelines; serializers that subscriptions share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import ADMIN, POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.shapes import UtcTimeField, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.federation import control
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.mounts import services
from apps.federation.mounts.services import Preview
from apps.federation.staleness import age_of
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

# --- Mounts and subscriptions as sent and received --------------------------------------------------------------------
# A token that a peer reads with has the scope `federation` alone, and manages nothing.
MANAGE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
ADMINISTER: Scopes = {method: frozenset({ADMIN}) for method in ("GET", "POST", "DELETE")}
LONGEST_REASON = 4000


class TroubleSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class RemoteSerializer(serializers.Serializer[Any]):
    """What both have. The token that the other side gave us is never shown."""

    id = serializers.IntegerField(source="pk")
    policy = serializers.CharField(source="policy.slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text='Where the entry is now; "" when it has left the tree')
    url = serializers.CharField()
    issuer = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Of the key that is trusted")
    has_token = serializers.SerializerMethodField()
    state = serializers.ChoiceField(Remote.State.choices)
    issued_at = UtcTimeField(allow_null=True, help_text="Of the newest good document")
    expires_at = UtcTimeField(allow_null=True)
    fetched_at = UtcTimeField(allow_null=True, help_text="The last try")
    good_at = UtcTimeField(allow_null=True, help_text="The last try that confirmed or brought a good one")
    age_s = serializers.SerializerMethodField(help_text="Since then; null before the first")
    due_at = UtcTimeField(allow_null=True)
    trouble = serializers.SerializerMethodField(help_text="Of the last try; null when it worked")
    n_failed = serializers.IntegerField(help_text="Tries in a row")
    every_s = serializers.IntegerField()
    max_age_s = serializers.IntegerField()
    stale_action = serializers.ChoiceField(Remote.StaleAction.choices)
    most_bytes = serializers.IntegerField()
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

    @extend_schema_field(TroubleSerializer(allow_null=True))
    def get_trouble(self, remote: Remote) -> dict[str, str] | None:
        return {"code": remote.error_code, "message": remote.error} if remote.error_code else None


class MountSerializer(RemoteSerializer):
    publication = serializers.CharField()
    version = serializers.IntegerField(help_text="The newest that was found good; 0: none yet")
    landed_version = serializers.IntegerField(help_text="The current one; 0: none yet")
    held = serializers.IntegerField(source="held_id", allow_null=True, help_text="Change set that waits for a decision")
    issuers = serializers.ListField(child=serializers.CharField(), help_text="Authorities that it has mounted in turn")
    most_points = serializers.FloatField()
    most_entries = serializers.IntegerField()
    most_levels = serializers.IntegerField()
    keep_usage = serializers.BooleanField(help_text="Accounts of removed entries are mapped to the mount's entry")


class SubscriptionSerializer(RemoteSerializer):
    feed = serializers.CharField()
    number = serializers.IntegerField(help_text="How far it was read; 0: nothing yet")
    source = serializers.CharField(source="source.slug")  # type: ignore[assignment]  # a name of ours
    capacity_cores = serializers.FloatField(help_text="As agreed: more can't have been used")
    reported_capacity_cores = serializers.FloatField(allow_null=True, help_text="As declared now")
    enforced_version = serializers.IntegerField(allow_null=True, help_text="Of our publication, active there")
    running_held = serializers.BooleanField(help_text="More runs there at once than it has: none of it counts")
    is_left_behind = serializers.BooleanField(help_text="There is more than one document holds")
    n_held_hours = serializers.SerializerMethodField(help_text="Hours with more than it can have used")

    def get_n_held_hours(self, remote: Subscription) -> int:
        return remote.held_hours.count()


class SettingsSerializer(serializers.Serializer[Any]):
    """Types only: which ranges there are, the room of federation says."""

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
    version = serializers.IntegerField(allow_null=True, help_text="Of the document, or number of the feed")
    n_bytes = serializers.IntegerField()
    duration_s = serializers.FloatField()
    code = serializers.CharField()
    message = serializers.CharField()


class PageSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=200, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False, default=50)


def split_settings(given: dict[str, Any], kind: type[SettingsSerializer]) -> dict[str, Any]:
    """The settings of what was sent; the rest stays in it."""
    names: list[str] = list(kind().get_fields())
    return {name: given.pop(name) for name in names if name in given}


def token_field() -> serializers.CharField:
    return serializers.CharField(
        max_length=4000,
        required=False,
        default="",
        allow_blank=True,
        help_text="What the other side gave us to read it; kept sealed, never shown again",
    )


# --- Routes -----------------------------------------------------------------------------------------------------------
_MOST_SHOWN = 200


class PreviewRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64, help_text="Where the caller means to mount it")
    url = serializers.CharField(max_length=2048)
    entry = serializers.CharField(
        max_length=9000, required=False, default="", help_text="Its path, to learn which usage would count nowhere"
    )
    token = token_field()


class UnmappedUsageSerializer(serializers.Serializer[Any]):
    n_accounts = serializers.IntegerField(help_text="Accounts at entries that would be removed, and no rule maps them")
    core_s = serializers.FloatField(help_text="Their usage of the last 30 days, which would count nowhere")
    n_peer_entries = serializers.IntegerField(help_text="Removed entries for which other sites report usage")


class PreviewEntrySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.CharField()
    shares = serializers.FloatField(allow_null=True, help_text="null: those of its parent")
    n_children = serializers.IntegerField()


class PreviewSerializer(serializers.Serializer[Any]):
    url = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Compare it with what its authority sent you through another channel")
    issuer = serializers.CharField()
    publication = serializers.CharField()
    version = serializers.IntegerField()
    issued_at = UtcTimeField()
    expires_at = UtcTimeField()
    issuers = serializers.ListField(child=serializers.CharField())
    n_entries = serializers.IntegerField()
    n_levels = serializers.IntegerField()
    name = serializers.CharField()
    entries = PreviewEntrySerializer(many=True, help_text=f"Directly below it, at most {_MOST_SHOWN}")
    unmapped = UnmappedUsageSerializer(
        allow_null=True, help_text="Usage that would count nowhere without `keep_usage`; null without `entry`"
    )


class NewMountSerializer(MountSettingsSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, help_text="Its path; its own share stays ours")
    url = serializers.CharField(max_length=2048)
    issuer = serializers.CharField(max_length=128)
    publication = serializers.CharField(max_length=128)
    fingerprint = serializers.CharField(max_length=200, help_text="Of its key, after a comparison")
    token = token_field()
    reason = serializers.CharField(max_length=LONGEST_REASON)


class ChangedMountSerializer(MountSettingsSerializer):
    token = serializers.CharField(
        max_length=4000, required=False, allow_blank=True, help_text='In place of the present one; "": none'
    )
    reason = serializers.CharField(max_length=LONGEST_REASON)


class PreviewView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    on_repeat = "work"

    @extend_schema(operation_id="preview_mount", request=PreviewRequestSerializer, responses=PreviewSerializer)
    def post(self, request: Request) -> Response:
        """Preview a document before its key is trusted. Nothing is stored."""
        given = sent(PreviewRequestSerializer, request)
        found = services.preview(
            url=given["url"],
            policy_slug=given["policy"],
            entry=given["entry"],
            token=given["token"],
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(PreviewSerializer(_preview(found)).data)


class MountListView(APIView):
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="list_mounts", responses=list_of(MountSerializer))
    def get(self, request: Request) -> Response:
        """Those that the caller decides about; a token needs the scope `federation` besides."""
        now = clock.now()
        found = services.list_mounts(actor=actor_of(request), at=now)
        return listed(MountSerializer(found, many=True, context={"at": now}).data)

    @extend_schema(operation_id="make_mount", request=NewMountSerializer, responses={201: MountSerializer})
    def post(self, request: Request) -> Response:
        """Mount a publication at an entry, under the key whose fingerprint was compared. It is fetched at once, and
        published or held for review; everything with a default may be omitted.
        """
        given = sent(NewMountSerializer, request)
        settings = split_settings(given, MountSettingsSerializer)
        now = clock.now()
        made = services.make_mount(
            policy_slug=given.pop("policy"), **given, settings=settings, at=now, actor=actor_of(request)
        )
        return Response(MountSerializer(made, context={"at": now}).data, status=201)


class MountDetailView(APIView):
    scopes: ClassVar[Scopes] = MANAGE

    @extend_schema(operation_id="get_mount", responses=MountSerializer)
    def get(self, request: Request, mount: int) -> Response:
        """Versions, age and limits."""
        now = clock.now()
        found = services.get_mount(mount_id=mount, actor=actor_of(request), at=now)
        return Response(MountSerializer(found, context={"at": now}).data)

    @extend_schema(operation_id="change_mount", request=ChangedMountSerializer, responses=MountSerializer)
    def patch(self, request: Request, mount: int) -> Response:
        """Limits and interval; omitted values stay."""
        given, now = sent(ChangedMountSerializer, request), clock.now()
        reason, token = given.pop("reason"), given.pop("token", None)
        found = control.change_settings(
            kind="mount", remote_id=mount, settings=given, token=token, reason=reason, at=now, actor=actor_of(request)
        )
        return Response(MountSerializer(found, context={"at": now}).data)


def _preview(found: Preview) -> dict[str, Any]:
    head, tree = found.document.head, found.document.tree
    return {
        "url": found.url,
        "fingerprint": found.key.fingerprint,
        "issuer": head.issuer,
        "publication": head.publication,
        "version": head.version,
        "issued_at": head.issued_at,
        "expires_at": head.expires_at,
        "issuers": list(head.issuers),
        "n_entries": found.n_entries,
        "n_levels": found.n_levels,
        "name": tree.name[0],
        "entries": [_entry(tree, i) for i in list(tree.children(0))[:_MOST_SHOWN]],
        "unmapped": found.unmapped,
    }


def _entry(tree: TreeColumns, i: int) -> dict[str, Any]:
    node = tree.node(i)
    return {"name": node.name, "kind": node.kind, "shares": node.shares, "n_children": len(tree.children(i))}
