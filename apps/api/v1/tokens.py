"""My tokens: through a signed-in session only, so that a token can't make another."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import selectors, services
from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.api.authentication import Scopes, actor_of
from apps.api.shapes import UtcTimeField, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock


class TokenSerializer(serializers.Serializer[Any]):
    """Without the secret, which can't be read again."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.SerializerMethodField()
    last_four = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    policy = serializers.CharField(source="policy_slug")
    subtree = serializers.UUIDField(source="subtree_uid", allow_null=True)
    source_slug = serializers.CharField()
    created_at = UtcTimeField()
    expires_at = UtcTimeField()
    last_used_at = UtcTimeField(allow_null=True)
    revoked_at = UtcTimeField(allow_null=True)

    def get_prefix(self, token: Token) -> str:
        return f"fsh_{token.public_id}"


class MadeTokenSerializer(TokenSerializer):
    token = serializers.SerializerMethodField(help_text="Shown this once.")

    def get_token(self, token: Token) -> str:
        return str(self.context["text"])


class NewTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=128)
    scopes = serializers.ListField(child=serializers.ChoiceField(Token.Scope.choices), min_length=1, max_length=20)
    policy = serializers.SlugField(max_length=64, required=False, default="", allow_blank=True)
    subtree = serializers.UUIDField(required=False, default=None, allow_null=True)
    source_slug = serializers.SlugField(max_length=64, required=False, default="", allow_blank=True)
    days = serializers.IntegerField(min_value=1, max_value=services.MOST_DAYS, required=False, default=services.DAYS)


class TokenListView(APIView):
    scopes: ClassVar[Scopes] = {}
    on_repeat = "refuse"

    @extend_schema(operation_id="list_tokens", responses=list_of(TokenSerializer))
    def get(self, request: Request) -> Response:
        """My tokens, newest first."""
        return listed(TokenSerializer(selectors.list_tokens(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_token", request=NewTokenSerializer, responses={201: MadeTokenSerializer})
    def post(self, request: Request) -> Response:
        """A new token of the caller; only this answer contains the secret."""
        given, actor = sent(NewTokenSerializer, request), actor_of(request)
        token, text = services.make_token(
            services.NewToken(
                name=given["name"],
                scopes=given["scopes"],
                user=_me(actor),
                policy_slug=given["policy"],
                subtree_uid=given["subtree"],
                source_slug=given["source_slug"],
                days=given["days"],
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
        """A new secret; the old one holds for another 24 hours."""
        return _made(*services.rotate_token(token_id=token, at=clock.now(), actor=actor_of(request)))


class TokenRevocationView(APIView):
    scopes: ClassVar[Scopes] = {}

    @extend_schema(operation_id="revoke_token", request=None, responses={204: None})
    def post(self, request: Request, token: int) -> Response:
        """It ends now; processes that know it follow within 5 seconds."""
        services.revoke_token(token_id=token, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


def _me(actor: Actor) -> User:
    assert actor.user is not None  # noqa: S101 - the views are closed to anonymous callers
    return actor.user


def _made(token: Token, text: str, status: int = 200) -> Response:
    return Response(MadeTokenSerializer(token, context={"text": text}).data, status=status)
