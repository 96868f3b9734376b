"""Accounts attached to entries by hand: listed, attached, detached."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.names.account_ids import AccountKey
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.v1.lists import asked, decode_cursor, list_of, listed, sent
from apps.api.v1.mapping.serializers import IF_MATCH_OF_ONE, AccountNameSerializer, seen_version
from apps.api.v1.policies.places import entry_uid
from apps.core import clock
from apps.mapping import attachments as attaching
from apps.mapping.models import Attachment
from apps.mapping.permissions import rights_in

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
_PAGE = 100


class MappingSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    account = serializers.SerializerMethodField()
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text="null: the entry is archived, and rules decide")
    reason = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = serializers.DateTimeField()

    @extend_schema_field(AccountNameSerializer)
    def get_account(self, row: Attachment) -> dict[str, str]:
        return dict(zip(AccountNameSerializer().fields, attaching.key_of(row.account), strict=True))

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, row: Attachment) -> str | None:
        tree = self.context["tree"]
        i = tree.index_of_uid(row.entry_uid)
        return None if i is None else str(tree.path(i))


class NewMappingSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer()
    entry = serializers.CharField(max_length=9000, help_text="Its uid, or its path")
    reason = serializers.CharField(max_length=2000)


class MappingFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, required=False, help_text="Its uid, or its path: there and below")
    cursor = serializers.CharField(max_length=200, required=False)


class DetachSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)


class MappingListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="list_mappings", parameters=[MappingFilterSerializer], responses=list_of(MappingSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Accounts attached by hand, at entries where the caller reads names."""
        given = asked(MappingFilterSerializer, request)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        uid = entry_uid(request, policy, given["entry"]) if "entry" in given else None
        after = decode_cursor(given["cursor"], int) if "cursor" in given else 0
        rows = attaching.list_attachments(rights, entry_uid=uid, after=after, limit=_PAGE + 1)
        following = rows[_PAGE - 1].pk if len(rows) > _PAGE else None
        return listed(MappingSerializer(rows[:_PAGE], many=True, context={"tree": rights.tree}).data, following)

    @extend_schema(
        operation_id="attach_account",
        parameters=[IF_MATCH_OF_ONE],
        request=NewMappingSerializer,
        responses={201: MappingSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """From the next recompute on the account counts there, whatever rules say."""
        given = sent(NewMappingSerializer, request)
        made = attaching.attach_account(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, given["entry"]),
            account=AccountKey(*given["account"].values()),
            reason=given["reason"],
            version=seen_version(request, is_asked_for=False),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(MappingSerializer(made, context=_context(request, policy)).data, status=201)


class MappingDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_mapping", responses=MappingSerializer)
    def get(self, request: Request, policy: str, mapping: int) -> Response:
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        row = attaching.get_attachment(rights, mapping)
        return Response(MappingSerializer(row, context={"tree": rights.tree}).data)

    @extend_schema(
        operation_id="detach_account", parameters=[IF_MATCH_OF_ONE], request=DetachSerializer, responses={204: None}
    )
    def delete(self, request: Request, policy: str, mapping: int) -> Response:
        """The rules decide again where the account counts."""
        given = sent(DetachSerializer, request)
        attaching.detach_account(
            policy_slug=policy,
            attachment_id=mapping,
            reason=given["reason"],
            version=seen_version(request, is_asked_for=False),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(status=204)


def _context(request: Request, policy: str) -> dict[str, Any]:
    return {"tree": rights_in(policy, at=clock.now(), actor=actor_of(request)).tree}
