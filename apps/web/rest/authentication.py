"""Authentication by bearer token or session, and the check of a token's scopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from django.http import HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts import services
from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import Token, User
from apps.core import clock
from apps.core.errors import NotAllowed, NotFound, Unauthenticated
from apps.web.rest.requests import client_address, request_id

if TYPE_CHECKING:  # the framework's views read this module when they are imported
    from rest_framework.views import APIView

REALM = 'Bearer realm="fairshare"'
SESSION_ONLY: frozenset[str] = frozenset()
Scopes = Mapping[str, frozenset[str]]

SELF_READ = Token.Scope.SELF_READ.value
PRIORITIES_READ = Token.Scope.PRIORITIES_READ.value
USAGE_WRITE = Token.Scope.USAGE_WRITE.value
POLICIES_READ = Token.Scope.POLICIES_READ.value
POLICIES_WRITE = Token.Scope.POLICIES_WRITE.value
SCHEDULERS = Token.Scope.SCHEDULERS.value
ADMIN = Token.Scope.ADMIN.value
ANY = frozenset(Token.Scope.values)


def bearer_text(request: HttpRequest) -> str | None:
    """The token in the Authorization header; None without one. Tokens in addresses are not supported: logs have them.

    Raises:
        Unauthenticated: the header has the scheme Bearer but no token.
    """
    header = str(request.META.get("HTTP_AUTHORIZATION", ""))
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer":
        return None
    if not text.strip():
        raise Unauthenticated("The header Authorization: Bearer has no token.", code="invalid_token")
    return text.strip()


class TokenAuthentication(BaseAuthentication):
    """Verifies tokens in the database for each request. Look-ups use a cache instead of this class."""

    def authenticate(self, request: Request) -> tuple[User, TokenBounds] | None:
        text = bearer_text(request._request)
        return None if text is None else services.verify_token(text, at=clock.now())

    def authenticate_header(self, request: Request) -> str:
        return REALM


class FormlessSessionAuthentication(SessionAuthentication):
    """Sessions whose CSRF token comes in the header. A token in a form would need the body before any right is asked,
    and the raw parsers of some routes read no form.
    """

    def enforce_csrf(self, request: Request) -> None:
        raw = request._request
        raw._post, raw._files = QueryDict(), MultiValueDict()  # type: ignore[attr-defined]  # else Django parses it
        super().enforce_csrf(cast(Request, raw))  # of Django: the framework's own would parse the body


class ScopePermission(BasePermission):
    """Allows a token to use a method only if the view names one of the token's scopes for it."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        method = request.method or ""
        if method not in view.allowed_methods:
            raise MethodNotAllowed(method)
        if isinstance(request.auth, TokenBounds):
            require_scope(request.auth, _scopes_for(view, method))
            require_reach(request.auth, view)
        return True


def _scopes_for(view: APIView, method: str) -> frozenset[str]:
    """Scopes that allow the method. OPTIONS is allowed with any scope of the view."""
    scopes: Scopes = getattr(view, "scopes", {})
    if method == "OPTIONS":
        return SESSION_ONLY.union(*scopes.values())
    return scopes.get("GET" if method == "HEAD" else method, SESSION_ONLY)


def require_scope(bounds: TokenBounds, scopes: frozenset[str]) -> None:
    if bounds.scopes & scopes or (scopes and Token.Scope.ADMIN in bounds.scopes):
        return
    if not scopes:
        raise NotAllowed("Tokens can't do this: sign in.", code="session_only")
    wanted = " or ".join(sorted(scopes))
    raise NotAllowed(f"The token lacks the scope {wanted}.", code="insufficient_scope")


def require_reach(bounds: TokenBounds, view: APIView) -> None:
    """Refuse a bound token where the route is about another policy or source, or about the whole site.

    Services ask again, for each object; a view whose services don't has the reach `site`.
    """
    if "policy" in view.kwargs:
        require_policy(bounds, view.kwargs["policy"])
    elif "source" in view.kwargs:
        if not bounds.reaches_source(view.kwargs["source"]):
            raise NotFound("There is no such usage source.")
    elif bounds.is_bound and getattr(view, "reach", "site") != "objects":
        message = "This is about the whole site, but the token is limited: make one without bounds."
        raise NotAllowed(message, code="token_bound")


def require_policy(bounds: TokenBounds, policy_slug: str) -> None:
    """404 for a token that is limited to another policy or to a source."""
    if not bounds.reaches_policy(policy_slug):
        raise NotFound("There is no such policy.")


def actor_of(request: Request) -> Actor:
    """The caller as services and selectors need it to check permissions."""
    bounds: Any = request.auth
    return Actor(
        user=cast(User, request.user),
        via="api",
        token=bounds if isinstance(bounds, TokenBounds) else None,
        request_id=request_id(request._request),
        address=client_address(request._request),
    )
