"""Committee packs: figures of some months for an allocation board, with checksum and signature; and links to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations.models import SharedPack
from apps.contrib.allocations.packs.content import PackQuery, get_pack
from apps.contrib.allocations.packs.links import (
    DEFAULT_DAYS,
    MOST_DAYS,
    list_pack_links,
    revoke_link,
    seal_pack,
    share_pack,
)
from apps.core import clock
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.inputs import entry_uid, read_body, read_query, require_seen_tree
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView


class PackFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=8_400, required=False, help_text="uid or path; default: the root")

    def get_fields(self) -> dict[str, Any]:
        """Add `from` and `to`: `from` is a keyword of Python."""
        text = "{} month, such as 2026-03; at most 12 months, by default the last complete one"
        months = {
            name: serializers.CharField(max_length=7, required=False, help_text=text.format(which))
            for name, which in (("from", "First"), ("to", "Last"))
        }
        return {**super().get_fields(), **months}


class PackSerializer(serializers.Serializer[Any]):
    pack = serializers.DictField(
        help_text="allocations, balance, fairness, held_back, changes and expiring; null for hidden numbers"
    )
    sha256 = serializers.CharField(help_text="Checksum of `pack` as canonical JSON (RFC 8785)")
    key = serializers.CharField(help_text="Fingerprint of the signing key")
    signed = serializers.CharField(help_text="The signed document: two lines, in the format of publications")


class PackView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_pack", parameters=[PackFilterSerializer], responses=PackSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Allocated and delivered core-hours, lending and borrowing, policy changes with reasons, and allocations that
        expire, for a period of months.
        """
        query = read_query(PackFilterSerializer, request)
        document = get_pack(_query(request, policy, query), actor=actor_of(request))
        sealed = seal_pack(document, at=clock.now())
        return Response(
            {
                "pack": document,
                "sha256": sealed.digest,
                "key": sealed.fingerprint,
                "signed": sealed.signed.decode(),
            }
        )


class PackLinkFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=8_400, required=False, help_text="uid or path; default: the root")


class PackLinkSerializer(serializers.ModelSerializer[SharedPack]):
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.CharField(source="entry_path")
    sha256 = serializers.CharField(source="digest", help_text="Checksum of the pack as canonical JSON (RFC 8785)")
    created_by = serializers.CharField(source="created_by_name")
    created_at = UtcTimeField()
    ends_at = UtcTimeField()
    revoked_at = UtcTimeField(allow_null=True)

    class Meta:
        model = SharedPack
        fields: tuple[str, ...] = ("id", "entry", "path", "sha256", "created_by", "created_at", "ends_at", "revoked_at")


class MadePackLinkSerializer(PackLinkSerializer):
    url = serializers.SerializerMethodField(help_text="Address that opens the pack without sign-in; never shown again")

    class Meta(PackLinkSerializer.Meta):
        fields = (*PackLinkSerializer.Meta.fields, "url")

    def get_url(self, _row: SharedPack) -> str:
        return str(self.context["url"])


class NewPackLinkSerializer(PackFilterSerializer):
    days = serializers.IntegerField(min_value=1, max_value=MOST_DAYS, required=False, default=DEFAULT_DAYS)
    reason = serializers.CharField(max_length=4_000)


def _query(request: Request, policy: str, query: Mapping[str, Any]) -> PackQuery:
    uid = entry_uid(request, policy, query["entry"]) if query.get("entry") else None
    return PackQuery(policy, uid, query.get("from", ""), query.get("to", ""))


class PackLinksView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ}), "POST": frozenset({POLICIES_WRITE})}
    on_repeat = "refuse"

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="list_pack_links", parameters=[PackLinkFilterSerializer], responses=list_schema(PackLinkSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Links to packs of an entry, newest first and without their secrets, for callers who may share them."""
        query = read_query(PackLinkFilterSerializer, request)
        uid = entry_uid(request, policy, query["entry"]) if query.get("entry") else None
        links = list_pack_links(policy_slug=policy, uid=uid, actor=actor_of(request))
        return list_response(PackLinkSerializer(links, many=True).data)

    @extend_schema(
        operation_id="make_pack_link", request=NewPackLinkSerializer, responses={201: MadePackLinkSerializer}
    )
    def post(self, request: Request, policy: str) -> Response:
        """Share the current pack by a link that needs no sign-in. Only this answer contains the address."""
        body = read_body(NewPackLinkSerializer, request)
        query = _query(request, policy, body)
        row, secret = share_pack(
            query,
            days=body["days"],
            reason=body["reason"],
            at=clock.now(),
            actor=actor_of(request),
        )
        url = request.build_absolute_uri(reverse("dashboard:shared-pack", kwargs={"token": secret}))
        return Response(MadePackLinkSerializer(row, context={"url": url}).data, status=201)


class PackLinkRevocationView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="revoke_pack_link", request=None, responses={204: None})
    def post(self, request: Request, policy: str, link: int) -> Response:
        """Revoke a link now. Revoking it again changes nothing."""
        revoke_link(policy_slug=policy, link=link, at=clock.now(), actor=actor_of(request))
        return Response(status=204)
