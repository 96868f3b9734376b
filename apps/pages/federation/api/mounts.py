"""Mounts of other sites' policies: preview, list, mount, change."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.federation import control
from apps.federation.grid.peers import require_mountable
from apps.federation.mounts import services
from apps.federation.mounts.services import MOST_PREVIEWED, Preview, PreviewEntry
from apps.mapping.moves import UnmappedUsage
from apps.pages.federation.api.remotes import (
    MANAGE,
    MountSerializer,
    RemoteView,
    SettingsSerializer,
    setting_field,
    split_settings,
    token_field,
)
from apps.policies.access.scope import require_scope
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView


class MountSettingsSerializer(SettingsSerializer):
    most_points = setting_field("most_points")
    most_entries = setting_field("most_entries")
    most_levels = setting_field("most_levels")
    keep_usage = serializers.BooleanField(
        required=False, help_text="Map accounts of removed entries to the mount's entry, so that their usage counts"
    )


class PreviewRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG, help_text="Policy in which it would be mounted")
    url = serializers.CharField(max_length=bounds.URL)
    entry = serializers.CharField(
        max_length=bounds.ENTRY,
        required=False,
        default="",
        allow_blank=True,
        help_text="Path of the entry, to see which usage would be unmapped",
    )
    token = token_field()


UnmappedUsageSerializer = record_serializer(
    UnmappedUsage,
    only="n_accounts core_s n_peer_entries",
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
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(
        max_length=bounds.ENTRY, help_text="Path of the entry; its own shares stay under local control"
    )
    url = serializers.CharField(max_length=bounds.URL)
    issuer = serializers.CharField(max_length=bounds.ISSUER)
    publication = serializers.CharField(max_length=bounds.MOUNTED_PUBLICATION)
    fingerprint = serializers.CharField(
        max_length=bounds.FINGERPRINT, help_text="Fingerprint of its key, after a comparison through another channel"
    )
    token = token_field()
    reason = serializers.CharField(max_length=bounds.REASON)


class ChangedMountSerializer(MountSettingsSerializer):
    token = serializers.CharField(
        max_length=bounds.BEARER_TOKEN, required=False, allow_blank=True, help_text='New token; "": none'
    )
    reason = serializers.CharField(max_length=bounds.REASON)


class PreviewView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}
    on_repeat = "work"

    def before_body(self, request: Request) -> None:
        require_scope(actor_of(request), "federation")
        require_mountable(at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="preview_mount", request=PreviewRequestSerializer, responses=PreviewSerializer)
    def post(self, request: Request) -> Response:
        """Fetch a publication and preview it, before its key is trusted. Nothing is stored."""
        body = read_body(PreviewRequestSerializer, request)
        preview = services.preview(policy_slug=body.pop("policy"), **body, at=clock.now(), actor=actor_of(request))
        return Response(PreviewSerializer(preview).data)


class MountListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = MANAGE

    def before_body(self, request: Request) -> None:
        require_mountable(at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="list_mounts", responses=list_schema(MountSerializer))
    def get(self, request: Request) -> Response:
        """Mounts that the caller manages. Tokens also need the scope `federation`."""
        now = clock.now()
        mounts = services.list_mounts(actor=actor_of(request), at=now)
        return list_response(MountSerializer(mounts, many=True, context={"at": now}).data)

    @extend_schema(operation_id="make_mount", request=NewMountSerializer, responses={201: MountSerializer})
    def post(self, request: Request) -> Response:
        """Mount a publication at an entry, and trust the key of this fingerprint.

        The publication is fetched at once, and published or held for review.
        """
        body = read_body(NewMountSerializer, request)
        settings = split_settings(body, MountSettingsSerializer)
        now = clock.now()
        made = services.make_mount(
            policy_slug=body.pop("policy"), **body, settings=settings, at=now, actor=actor_of(request)
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
