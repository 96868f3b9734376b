"""Committee packs: the numbers of a period for an allocation board, with their checksum and signature."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, Scopes, actor_of
from apps.api.v1.shapes import asked, entry_uid
from apps.api.views import APIView
from apps.core import clock
from apps.packs.content import get_pack
from apps.packs.links import seal_pack


class PackFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=8_400, required=False, help_text="uid or path; the root by default")

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language."""
        says = "A month, 2026-03; at most 12 of them, the last full one by default"
        months = {name: serializers.CharField(max_length=7, required=False, help_text=says) for name in ("from", "to")}
        return {**super().get_fields(), **months}


class PackSerializer(serializers.Serializer[Any]):
    pack = serializers.DictField(help_text="allocations, balance, held_back, changes and expiring; null: hidden")
    sha256 = serializers.CharField(help_text="Of the pack as canonical JSON (RFC 8785)")
    key = serializers.CharField(help_text="Fingerprint of the key that signed it")
    signed = serializers.CharField(help_text="Both lines of the signed document, as publications have them")


class PackView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_pack", parameters=[PackFilterSerializer], responses=PackSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Allocated against delivered, who lent and borrowed, changes with reasons, and what ends, of some months."""
        given = asked(PackFilterSerializer, request)
        uid = entry_uid(request, policy, given["entry"]) if given.get("entry") else None
        document = get_pack(
            policy_slug=policy,
            uid=uid,
            first=given.get("from", ""),
            last=given.get("to", ""),
            actor=actor_of(request),
        )
        sealed = seal_pack(document, at=clock.now())
        return Response(
            {
                "pack": document,
                "sha256": sealed.digest,
                "key": sealed.fingerprint,
                "signed": sealed.signed.decode(),
            }
        )
