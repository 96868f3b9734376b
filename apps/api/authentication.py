"""Who asks: a bearer token, else the session."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.accounts.actor import TokenBounds
from apps.accounts.models import User


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, TokenBounds] | None:
        return None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="fairshare"'
