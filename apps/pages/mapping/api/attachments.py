"""Accounts that are attached to an entry by hand."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.account_keys import AccountKey
from apps.core import clock
from apps.mapping import attachments as attaching
from apps.mapping.permissions import rights_in
from apps.pages.mapping.api.serializers import (
    DetachSerializer,
    MappingFilterSerializer,
    MappingSerializer,
    NewMappingSerializer,
)
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.if_match import if_match_header, read_version
from apps.web.rest.inputs import entry_uid, read_body, read_query, require_seen_tree
from apps.web.rest.shapes import first_page, list_response, list_schema
from apps.web.rest.views import APIView

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
_PAGE = 100


class MappingListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="list_mappings", parameters=[MappingFilterSerializer], responses=list_schema(MappingSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Accounts attached by hand, at entries where the caller may read names."""
        query = read_query(MappingFilterSerializer, request)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        uid = entry_uid(request, policy, query["entry"]) if "entry" in query else None
        rows = attaching.list_attachments(rights, entry_uid=uid, after=read_cursor(query) or 0, limit=_PAGE + 1)
        page, last = first_page(rows, _PAGE, lambda row: row.pk)
        return list_response(MappingSerializer(page, many=True, context={"tree": rights.tree}).data, last)

    @extend_schema(
        operation_id="attach_account",
        parameters=[if_match_header("the mapping", is_required=False)],
        request=NewMappingSerializer,
        responses={201: MappingSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """Attach an account to an entry, with priority over rules, from the next recompute on."""
        body = read_body(NewMappingSerializer, request)
        made = attaching.attach_account(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, body["entry"]),
            account=AccountKey(*body["account"].values()),
            reason=body["reason"],
            version=read_version(request),
            at=clock.now(),
            actor=actor_of(request),
        )
        tree = rights_in(policy, at=clock.now(), actor=actor_of(request)).tree
        return Response(MappingSerializer(made, context={"tree": tree}).data, status=201)


class MappingDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str, mapping: int) -> None:
        attaching.get_attachment(rights_in(policy, at=clock.now(), actor=actor_of(request)), mapping)

    @extend_schema(operation_id="get_mapping", responses=MappingSerializer)
    def get(self, request: Request, policy: str, mapping: int) -> Response:
        """One attached account."""
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        row = attaching.get_attachment(rights, mapping)
        return Response(MappingSerializer(row, context={"tree": rights.tree}).data)

    @extend_schema(
        operation_id="detach_account",
        parameters=[if_match_header("the mapping", is_required=False)],
        request=DetachSerializer,
        responses={204: None},
    )
    def delete(self, request: Request, policy: str, mapping: int) -> Response:
        """Detach an account. Rules apply to it again."""
        body = read_body(DetachSerializer, request)
        attaching.detach_account(
            policy_slug=policy,
            attachment_id=mapping,
            reason=body["reason"],
            version=read_version(request),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(status=204)
