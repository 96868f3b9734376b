"""Committee packs: figures of some months for an allocation board, with checksum and signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations.packs.content import PackQuery, get_pack
from apps.contrib.allocations.packs.signed import sign_pack
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.inputs import entry_uid, read_query
from apps.web.rest.views import APIView


class PackFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, required=False, help_text="uid or path; default: the root")

    def get_fields(self) -> dict[str, Any]:
        """Add `from` and `to`: `from` is a keyword of Python."""
        text = "{} month, such as 2026-03; at most 12 months, by default the last complete one"
        months = {
            name: serializers.CharField(max_length=bounds.MONTH, required=False, help_text=text.format(which))
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
        signed = sign_pack(document, at=clock.now())
        return Response(
            {
                "pack": document,
                "sha256": signed.digest,
                "key": signed.fingerprint,
                "signed": signed.signed.decode(),
            }
        )


def _query(request: Request, policy: str, query: Mapping[str, Any]) -> PackQuery:
    uid = entry_uid(request, policy, query["entry"]) if query.get("entry") else None
    return PackQuery(policy, uid, query.get("from", ""), query.get("to", ""))
