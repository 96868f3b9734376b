"""API tokens of the caller, for signed-in sessions only: a token can't create another token."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import selectors, services
from apps.accounts.models import Token
from apps.core import clock
from apps.core.column_bounds import most_characters
from apps.web import bounds
from apps.web.rest.authentication import Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.inputs import read_body
from apps.web.rest.records import keeps_old_names
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView


@keeps_old_names
class TokenSerializer(serializers.Serializer[Any]):
    """A token without its secret, which is shown only when the token is made or rotated."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.SerializerMethodField()
    last_four = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField(), help_text="What the token may do")
    policy = serializers.CharField(source="policy_slug", help_text='Policy to which it is limited; "": all policies')
    subtree = serializers.UUIDField(
        source="subtree_uid", allow_null=True, help_text="Entry to whose subtree it is limited; null: the whole tree"
    )
    source = serializers.CharField(  # type: ignore[assignment]  # a name of ours
        source="source_slug", help_text='Usage source to which it is limited; "": all sources'
    )
    scheduler = serializers.CharField(
        source="scheduler_name", help_text='Scheduler to whose agent it is limited; "": none'
    )
    created_at = UtcTimeField()
    expires_at = UtcTimeField()
    last_used_at = UtcTimeField(allow_null=True)
    revoked_at = UtcTimeField(allow_null=True)

    def get_prefix(self, token: Token) -> str:
        return f"fsh_{token.public_id}"


@keeps_old_names
class MadeTokenSerializer(TokenSerializer):
    token = serializers.SerializerMethodField(help_text="The token with its secret; never shown again")

    def get_token(self, token: Token) -> str:
        return str(self.context["text"])


@keeps_old_names
class NewTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=most_characters(Token, "name"))
    scopes = BoundedListField(
        child=serializers.ChoiceField(Token.Scope.choices), min_length=1, max_length=bounds.CHOICES
    )
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG, required=False, default="", allow_blank=True)
    subtree = serializers.UUIDField(required=False, default=None, allow_null=True)
    source = serializers.CharField(  # type: ignore[assignment]  # a name of ours
        max_length=bounds.SOURCE_SLUG, required=False, default="", allow_blank=True
    )
    days = serializers.IntegerField(
        min_value=1, max_value=services.MOST_TOKEN_DAYS, required=False, default=services.DAYS
    )


class TokenListView(APIView):
    scopes: ClassVar[Scopes] = {}
    on_repeat = "refuse"

    @extend_schema(operation_id="list_tokens", responses=list_schema(TokenSerializer))
    def get(self, request: Request) -> Response:
        """The caller's tokens, newest first."""
        return list_response(TokenSerializer(selectors.list_tokens(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_token", request=NewTokenSerializer, responses={201: MadeTokenSerializer})
    def post(self, request: Request) -> Response:
        """Make a token for the caller. Only this answer contains its secret."""
        body, actor = read_body(NewTokenSerializer, request), actor_of(request)
        assert actor.user is not None  # noqa: S101 - the views are closed to anonymous callers
        token, text = services.make_token(
            services.NewToken(
                name=body["name"],
                scopes=body["scopes"],
                user=actor.user,
                policy_slug=body["policy"],
                subtree_uid=body["subtree"],
                source_slug=body["source"],
                days=body["days"],
            ),
            at=clock.now(),
            actor=actor,
        )
        return _made(token, text, status=201)


class TokenRotationView(APIView):
    scopes: ClassVar[Scopes] = {}
    on_repeat = "refuse"

    @extend_schema(operation_id="rotate_token", request=None, responses=MadeTokenSerializer)
    def post(self, request: Request, token: int) -> Response:
        """Replace the secret of a token. The old secret stays valid for another 24 hours."""
        return _made(*services.rotate_token(token_id=token, at=clock.now(), actor=actor_of(request)))


class TokenRevocationView(APIView):
    scopes: ClassVar[Scopes] = {}

    @extend_schema(operation_id="revoke_token", request=None, responses={204: None})
    def post(self, request: Request, token: int) -> Response:
        """Revoke a token now. Server processes that cache it reject it within 5 seconds."""
        services.revoke_token(token_id=token, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


def _made(token: Token, text: str, status: int = 200) -> Response:
    return Response(MadeTokenSerializer(token, context={"text": text}).data, status=status)
