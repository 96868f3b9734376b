"""Grants of a policy, and the explanation of a person's rights at an entry."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.mapping.permissions import load_visibility
from apps.policies.access import delegation
from apps.policies.access import role_holders as access
from apps.policies.access.authority import GrantChange, GrantTerms
from apps.policies.access.role_holders import Access, GrantLine, GrantState, VerbStatus
from apps.policies.models import Grant
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import entry_uid, read_body, read_query, require_seen_tree
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, with_etag
from apps.web.rest.views import APIView

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
_IF_MATCH = if_match_header("the grant")
_GIVEN_ON = [
    ("end", "Grants that depend on it end with it"),
    ("keep", "Grants that the caller could have given stay, in the caller's name"),
]


class GrantSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="grant.id")
    entry = serializers.UUIDField(source="grant.entry_uid")
    path = serializers.CharField(help_text="Current path of the entry; the last one, if it is archived")
    person = serializers.SerializerMethodField(help_text="User name; null: the grant is for a group")
    people = serializers.CharField(
        source="grant.people",
        help_text='Group of the identity provider; "*": everyone who signs in; "": the grant is for a person',
    )
    role = serializers.ChoiceField(Grant.Role.choices, source="grant.role")
    verbs = serializers.ListField(child=serializers.ChoiceField(Grant.Verb.choices), source="grant.verbs")
    reason = serializers.CharField(source="grant.reason")
    granted_by = serializers.SerializerMethodField()
    created_at = UtcTimeField(source="grant.created_at")
    expires_at = UtcTimeField(source="grant.expires_at", allow_null=True)
    state = serializers.ChoiceField([(state.value, state.name.replace("_", " ").lower()) for state in GrantState])
    may_change = serializers.BooleanField()
    etag = serializers.SerializerMethodField(help_text="Value for If-Match")

    def get_person(self, line: GrantLine) -> str | None:
        return line.grant.user.username if line.grant.user else None

    def get_granted_by(self, line: GrantLine) -> str | None:
        return line.grant.granted_by.username if line.grant.granted_by else None

    def get_etag(self, line: GrantLine) -> str:
        return f'"{line.tag}"'


class NewGrantSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text="uid or path")
    person = serializers.CharField(max_length=bounds.PERSON, required=False, default="", allow_blank=True)
    people = serializers.CharField(max_length=bounds.PEOPLE, required=False, default="", allow_blank=True)
    role = serializers.ChoiceField(Grant.Role.choices)
    verbs = BoundedListField(
        child=serializers.ChoiceField(Grant.Verb.choices), required=False, min_length=1, max_length=bounds.CHOICES
    )
    reason = serializers.CharField(max_length=delegation.LONGEST_GRANT_REASON)
    expires_at = UtcTimeField(
        required=False,
        allow_null=True,
        help_text="Default: a year, or the end of the caller's own right if that is earlier; null: no end",
    )


class ChangedGrantSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(Grant.Role.choices, required=False)
    verbs = BoundedListField(
        child=serializers.ChoiceField(Grant.Verb.choices), required=False, min_length=1, max_length=bounds.CHOICES
    )
    reason = serializers.CharField(max_length=delegation.LONGEST_GRANT_REASON, required=False)
    expires_at = UtcTimeField(required=False, allow_null=True)
    given_on = serializers.ChoiceField(_GIVEN_ON, required=False, default="end")


class GrantFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, required=False, help_text="uid or path")
    below = serializers.BooleanField(required=False, default=False, help_text="Also grants at entries below it")
    person = serializers.CharField(max_length=bounds.PERSON, required=False, default="", allow_blank=True)
    state = serializers.ChoiceField(GrantSerializer().fields["state"].choices, required=False)  # type: ignore[attr-defined]


class EndSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(
        max_length=delegation.LONGEST_GRANT_REASON, required=False, default="", allow_blank=True
    )
    given_on = serializers.ChoiceField(_GIVEN_ON, required=False, default="end")


class AccessFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, required=False, default="/", help_text="uid or path")
    person = serializers.CharField(
        max_length=bounds.PERSON,
        required=False,
        default="",
        allow_blank=True,
        help_text="User name; default: the caller",
    )


_BASIS = inline_serializer(
    "GrantBasis",
    {
        "grant": serializers.IntegerField(source="grant.id"),
        "path": serializers.CharField(),
        "is_inherited": serializers.BooleanField(),
        "role": serializers.ChoiceField(Grant.Role.choices, source="grant.role"),
        "people": serializers.CharField(source="grant.people"),
        "granted_by": serializers.CharField(source="grant.granted_by.username", allow_null=True, default=None),
        "reason": serializers.CharField(source="grant.reason"),
        "expires_at": UtcTimeField(source="grant.expires_at", allow_null=True),
    },
    many=True,
)
AccessSerializer = record_serializer(
    Access,
    only="verbs person entry path is_admin is_open may_see may_divide may_change_own",
    renamed={"entry": "entry_uid"},
    person=serializers.CharField(source="person.username"),
    verbs=record_serializer(
        VerbStatus,
        only="grounds verb label is_held until",
        verb=serializers.ChoiceField(Grant.Verb.choices),
        grounds=_BASIS,
    )(many=True),
)


class GrantListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="list_grants", parameters=[GrantFilterSerializer], responses=list_schema(GrantSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Grants of the caller, grants that the caller gave, and grants at entries where the caller manages roles or
        sees people by name.
        """
        query = read_query(GrantFilterSerializer, request)
        entry = entry_uid(request, policy, query["entry"]) if "entry" in query else None
        lines = access.list_grants(
            policy_slug=policy,
            entry_uid=entry,
            below=query["below"],
            username=query["person"],
            at=clock.now(),
            actor=actor_of(request),
        )
        wanted = [line for line in lines if query.get("state") in (None, line.state.value)]
        return list_response(GrantSerializer(wanted, many=True).data)

    @extend_schema(operation_id="create_grant", request=NewGrantSerializer, responses={201: GrantSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Give a grant. Callers can't exceed their own rights or the end of these, and can't give to themselves."""
        body = read_body(NewGrantSerializer, request)
        more = {name: body[name] for name in ("verbs", "expires_at") if name in body}
        grant = delegation.create_grant(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, body["entry"]),
            terms=GrantTerms(
                username=body["person"], people=body["people"], role=body["role"], reason=body["reason"], **more
            ),
            at=clock.now(),
            actor=actor_of(request),
        )
        return _answer(request, policy, grant.pk, 201)


class GrantDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_grant", responses=GrantSerializer)
    def get(self, request: Request, policy: str, grant: int) -> Response:
        """One grant with its current state."""
        return _answer(request, policy, grant)

    @extend_schema(
        operation_id="change_grant", parameters=[_IF_MATCH], request=ChangedGrantSerializer, responses=GrantSerializer
    )
    def patch(self, request: Request, policy: str, grant: int) -> Response:
        """Change the given fields. A later `expires_at` extends the grant."""
        tag, actor = _seen(request, policy, grant), actor_of(request)
        body = read_body(ChangedGrantSerializer, request)
        given_on, at = body.pop("given_on"), clock.now()
        change = GrantChange(**body)
        delegation.change_grant(
            policy_slug=policy, grant_id=grant, tag=tag, change=change, given_on=given_on, at=at, actor=actor
        )
        return _answer(request, policy, grant)

    @extend_schema(operation_id="end_grant", parameters=[_IF_MATCH, EndSerializer], responses={204: None})
    def delete(self, request: Request, policy: str, grant: int) -> Response:
        """End a grant now. The audit log keeps it."""
        tag, actor = _seen(request, policy, grant), actor_of(request)
        query = read_query(EndSerializer, request)
        delegation.end_grant(policy_slug=policy, grant_id=grant, tag=tag, **query, at=clock.now(), actor=actor)
        return Response(status=204)


class AccessView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(operation_id="explain_access", parameters=[AccessFilterSerializer], responses=AccessSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """A person's rights at an entry, verb by verb, with the grants that give them."""
        query = read_query(AccessFilterSerializer, request)
        answer = access.explain_access(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, query["entry"]),
            username=query["person"],
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )
        return Response(AccessSerializer(answer).data)


def _seen(request: Request, policy: str, grant: int) -> str:
    """The tag in If-Match; 404 first if the caller may not see the grant."""
    delegation.get_grant(policy_slug=policy, grant_id=grant, at=clock.now(), actor=actor_of(request))
    return require_if_match(request, "grant")


def _answer(request: Request, policy: str, grant: int, status: int = 200) -> Response:
    at, actor = clock.now(), actor_of(request)
    line = access.get_grant_line(policy_slug=policy, grant_id=grant, at=at, actor=actor)
    return with_etag(Response(GrantSerializer(line).data, status=status), line.tag)
