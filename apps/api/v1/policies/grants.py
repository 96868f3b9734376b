"""Grants of a policy: listed, given, changed, ended; and why a person may do something at an entry."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.shapes import UtcTimeField, asked, entry_uid, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import FieldProblem
from apps.mapping.permissions import see
from apps.policies.access import delegation
from apps.policies.access import holders as access
from apps.policies.access.holders import GrantLine, GrantState
from apps.policies.models import Grant

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
_TAG = re.compile(r'(?:W/)?"([^"]{1,80})"')
_IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description="The grant's ETag", required=True)
_GIVEN_ON = [("end", "What rests on it ends with it"), ("keep", "What I could have given is kept in my name")]


class GrantSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="grant.pk")
    entry = serializers.UUIDField(source="grant.entry_uid")
    path = serializers.CharField(help_text="Where the entry is now; where it was, if it is archived")
    person = serializers.SerializerMethodField(help_text="A user name; null for a group")
    people = serializers.CharField(
        source="grant.people", help_text='A group of sign-in; "*": everybody who signs in; "" for a person'
    )
    role = serializers.ChoiceField(Grant.Role.choices, source="grant.role")
    verbs = serializers.ListField(child=serializers.ChoiceField(Grant.Verb.choices), source="grant.verbs")
    reason = serializers.CharField(source="grant.reason")
    granted_by = serializers.SerializerMethodField()
    created_at = UtcTimeField(source="grant.created_at")
    expires_at = UtcTimeField(source="grant.expires_at", allow_null=True)
    state = serializers.ChoiceField([(state.value, state.name.replace("_", " ").lower()) for state in GrantState])
    may_change = serializers.BooleanField()
    etag = serializers.SerializerMethodField(help_text="What If-Match asks for")

    def get_person(self, line: GrantLine) -> str | None:
        return line.grant.user.username if line.grant.user else None

    def get_granted_by(self, line: GrantLine) -> str | None:
        return line.grant.granted_by.username if line.grant.granted_by else None

    def get_etag(self, line: GrantLine) -> str:
        return f'"{line.tag}"'


class NewGrantSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, help_text="Its uid, or its path")
    person = serializers.CharField(max_length=150, required=False, default="", allow_blank=True)
    people = serializers.CharField(max_length=4000, required=False, default="", allow_blank=True)
    role = serializers.ChoiceField(Grant.Role.choices)
    verbs = serializers.ListField(
        child=serializers.ChoiceField(Grant.Verb.choices), required=False, min_length=1, max_length=20
    )
    reason = serializers.CharField(max_length=delegation.LONGEST_REASON)
    expires_at = UtcTimeField(
        required=False, allow_null=True, help_text="Left out: a year, or as long as your own right; null: no end"
    )


class ChangedGrantSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(Grant.Role.choices, required=False)
    verbs = serializers.ListField(
        child=serializers.ChoiceField(Grant.Verb.choices), required=False, min_length=1, max_length=20
    )
    reason = serializers.CharField(max_length=delegation.LONGEST_REASON, required=False)
    expires_at = UtcTimeField(required=False, allow_null=True)
    given_on = serializers.ChoiceField(_GIVEN_ON, required=False, default="end")


class GrantFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, required=False, help_text="Its uid, or its path")
    below = serializers.BooleanField(required=False, default=False, help_text="Also what was given below it")
    person = serializers.CharField(max_length=150, required=False, default="")
    state = serializers.ChoiceField(GrantSerializer().fields["state"].choices, required=False)  # type: ignore[attr-defined]


class EndSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=delegation.LONGEST_REASON, required=False, default="")
    given_on = serializers.ChoiceField(_GIVEN_ON, required=False, default="end")


class AccessFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, required=False, default="/", help_text="Its uid, or its path")
    person = serializers.CharField(max_length=150, required=False, default="", help_text="Left out: myself")


_GROUND = inline_serializer(
    "Ground",
    {
        "grant": serializers.IntegerField(source="grant.pk"),
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
_VERB = inline_serializer(
    "VerbAnswer",
    {
        "verb": serializers.ChoiceField(Grant.Verb.choices),
        "label": serializers.CharField(),
        "is_held": serializers.BooleanField(),
        "until": UtcTimeField(allow_null=True),
        "grounds": _GROUND,
    },
    many=True,
)


class AccessSerializer(serializers.Serializer[Any]):
    person = serializers.CharField(source="person.username")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.CharField()
    is_admin = serializers.BooleanField()
    is_open = serializers.BooleanField(help_text="The policy shows its tree to everybody who signs in")
    may_see = serializers.BooleanField()
    may_divide = serializers.BooleanField(help_text="What lies below the entry")
    may_change_own = serializers.BooleanField(help_text="The entry's own shares, which are decided above it")
    verbs = _VERB


class GrantListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="list_grants", parameters=[GrantFilterSerializer], responses=list_of(GrantSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """My own, those I gave, and those at entries where I give roles or see people by name."""
        given = asked(GrantFilterSerializer, request)
        entry = entry_uid(request, policy, given["entry"]) if "entry" in given else None
        lines = access.list_grants(
            policy_slug=policy,
            entry_uid=entry,
            below=given["below"],
            username=given["person"],
            at=clock.now(),
            actor=actor_of(request),
        )
        wanted = [line for line in lines if given.get("state") in (None, line.state.value)]
        return listed(GrantSerializer(wanted, many=True).data)

    @extend_schema(operation_id="give_grant", request=NewGrantSerializer, responses={201: GrantSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Givers can't exceed their own rights or their duration, nor give to themselves."""
        given = sent(NewGrantSerializer, request)
        more = {name: given[name] for name in ("verbs", "expires_at") if name in given}
        grant = delegation.give_grant(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, given["entry"]),
            username=given["person"],
            people=given["people"],
            role=given["role"],
            reason=given["reason"],
            at=clock.now(),
            actor=actor_of(request),
            **more,
        )
        return _answer(request, policy, grant.pk, 201)


class GrantDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_grant", responses=GrantSerializer)
    def get(self, request: Request, policy: str, grant: int) -> Response:
        return _answer(request, policy, grant)

    @extend_schema(
        operation_id="change_grant", parameters=[_IF_MATCH], request=ChangedGrantSerializer, responses=GrantSerializer
    )
    def patch(self, request: Request, policy: str, grant: int) -> Response:
        """Replace what is given; a longer expires_at extends it."""
        tag, actor = _seen(request, policy, grant), actor_of(request)
        given = sent(ChangedGrantSerializer, request)
        delegation.change_grant(policy_slug=policy, grant_id=grant, tag=tag, **given, at=clock.now(), actor=actor)
        return _answer(request, policy, grant)

    @extend_schema(operation_id="end_grant", parameters=[_IF_MATCH, EndSerializer], responses={204: None})
    def delete(self, request: Request, policy: str, grant: int) -> Response:
        """It ends now; the log keeps it."""
        tag, actor = _seen(request, policy, grant), actor_of(request)
        given = asked(EndSerializer, request)
        delegation.end_grant(policy_slug=policy, grant_id=grant, tag=tag, **given, at=clock.now(), actor=actor)
        return Response(status=204)


class AccessView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(operation_id="explain_access", parameters=[AccessFilterSerializer], responses=AccessSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """A person's rights at an entry, verb by verb, with the grants behind them."""
        given = asked(AccessFilterSerializer, request)
        answer = access.explain_access(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, given["entry"]),
            username=given["person"],
            at=clock.now(),
            actor=actor_of(request),
            visibility=see,
        )
        return Response(AccessSerializer(answer).data)


def _seen(request: Request, policy: str, grant: int) -> str:
    """The state the caller has read, of a grant that there is."""
    delegation.get_grant(policy_slug=policy, grant_id=grant, at=clock.now(), actor=actor_of(request))
    text = request.headers.get("If-Match", "").strip()
    if not text:
        message = "Send If-Match with the ETag of the grant that you have read."
        problem = FieldProblem("If-Match", "is missing")
        raise Refusal(message, code="precondition_required", status=428, fields=[problem])
    match = _TAG.fullmatch(text)
    return match[1] if match else ""


def _answer(request: Request, policy: str, grant: int, status: int = 200) -> Response:
    at, actor = clock.now(), actor_of(request)
    line = access.get_grant_line(policy_slug=policy, grant_id=grant, at=at, actor=actor)
    response = Response(GrantSerializer(line).data, status=status)
    response["ETag"] = f'"{line.tag}"'
    return response
