"""Mounts of other authorities' policies: previewed, mounted, changed, their timelines."""

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
    MountSerializer,
    MountSettingsSerializer,
    split_settings,
    token_field,
)
from apps.api.v1.shapes import list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.federation import control
from apps.federation.mounts import services
from apps.federation.mounts.services import Preview
from apps.policies.tree.columns import TreeColumns

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
