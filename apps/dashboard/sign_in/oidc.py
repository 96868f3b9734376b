"""Sign-in by OpenID Connect: allauth implements the protocol, settings name the issuer, `people` maps to users."""

from __future__ import annotations

import secrets
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from requests import RequestException

from apps.accounts.models import Identity
from apps.accounts.people import Person, update_or_create_user
from apps.core import clock
from apps.core.errors import DomainError, Unavailable
from apps.dashboard.shell.errors import Refusal, refusal_of, refuse
from apps.dashboard.shell.requests import SeeOther
from apps.dashboard.sign_in.session import sign_in, url_after_sign_in

PROVIDER_ID = "site"
_HINT = "oidc_hint"  # ID token in the session; with it the issuer signs out without asking
CALLBACK = "openid_connect_callback"  # URL name that allauth expects


class CheckedAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """Adapter that also checks the ID token's signature, which allauth skips for tokens from the token endpoint."""

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        self.did_fetch_access_token = False
        self.request.session[_HINT] = id_token
        decoded: dict[str, Any] = super()._decode_id_token(app, id_token)
        return decoded


class SiteProvider(OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = CheckedAdapter


class NoLocalSteps(DefaultAccountAdapter):  # type: ignore[misc]
    """Adapter without sign-up: users are created from trusted identity providers only."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False


class SiteAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Adapter for the one issuer in the settings, whose claims decide who signs in."""

    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[Any]:
        if not settings.FAIRSHARE_OIDC_ISSUER or provider not in (None, PROVIDER_ID, "openid_connect"):
            return []
        app = SocialApp(
            provider="openid_connect",
            provider_id=PROVIDER_ID,
            name=settings.FAIRSHARE_OIDC_NAME,
            client_id=settings.FAIRSHARE_OIDC_CLIENT_ID,
            secret=settings.FAIRSHARE_OIDC_CLIENT_SECRET,
        )
        app.settings = {
            "server_url": settings.FAIRSHARE_OIDC_ISSUER.rstrip("/"),
            "oauth_pkce_enabled": True,
            "scope": settings.FAIRSHARE_OIDC_SCOPES,
        }
        return [app]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> NoReturn:
        """Sign in the user whom the claims identify; always ends the request with a response."""
        data, state = sociallogin.account.extra_data, sociallogin.state
        token = data.get("id_token") or {}
        if not token or not secrets.compare_digest(str(token.get("nonce", "")), str(state.get("nonce", " "))):
            raise ImmediateHttpResponse(failed(request))
        claims = {**token, **(data.get("userinfo") or {})}
        if claims.get("sub") != token.get("sub"):
            raise ImmediateHttpResponse(failed(request))
        try:
            address = request.META.get("REMOTE_ADDR")
            user = update_or_create_user(_person(token, claims), at=clock.now(), address=address)
        except DomainError as refusal:
            raise ImmediateHttpResponse(refuse(request, refusal_of(refusal))) from refusal
        id_token = request.session.get(_HINT, "")
        sign_in(request, user, by=Identity.Source.OIDC)
        request.session[_HINT] = id_token
        raise ImmediateHttpResponse(SeeOther(url_after_sign_in(request, state.get("next"))))

    def on_authentication_error(self, request: HttpRequest, provider: Any, **_details: Any) -> NoReturn:
        raise ImmediateHttpResponse(failed(request))


def start(request: HttpRequest, next_url: str) -> str:
    """URL of the issuer's sign-in; raises Unavailable if the issuer does not respond."""
    nonce = secrets.token_urlsafe(24)
    provider = SiteProvider(request, app=SiteAdapter(request).list_apps(request)[0])
    try:
        answer = provider.redirect(request, "login", next_url=next_url, auth_params={"nonce": nonce}, nonce=nonce)
    except (RequestException, KeyError, ValueError) as error:
        raise Unavailable(
            _("Your site’s sign-in service does not answer: try again in a moment."), code="oidc_down"
        ) from error
    return str(answer["Location"])


def end_session_address(request: HttpRequest) -> str:
    """URL at which the issuer ends its own session and returns here (OpenID Connect RP-Initiated Logout 1.0).

    Empty if the issuer offers none or does not respond. Call it before the session here ends.
    """
    try:
        config = CheckedAdapter(request, PROVIDER_ID).openid_config
        endpoint = str(config.get("end_session_endpoint") or "")
    except (RequestException, ValueError):
        return ""
    if urlsplit(endpoint).scheme not in ("https", "http"):
        return ""
    given = {
        "client_id": settings.FAIRSHARE_OIDC_CLIENT_ID,
        "post_logout_redirect_uri": request.build_absolute_uri(reverse("dashboard:sign-in")),
    }
    if request.session.get(_HINT):
        given["id_token_hint"] = request.session[_HINT]
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(given)}"


def failed(request: HttpRequest) -> HttpResponse:
    """Response to a failed sign-in; it does not reveal the reason."""
    message = _("The sign-in was not completed, or took too long. Start again from the sign-in page.")
    return refuse(request, Refusal(403, _("You are not signed in"), message, "sign_in_failed"))


def _person(token: dict[str, Any], claims: dict[str, Any]) -> Person:
    groups = claims.get(settings.FAIRSHARE_OIDC_GROUPS_CLAIM) or []
    username = claims.get(settings.FAIRSHARE_OIDC_USERNAME_CLAIM) or token["sub"]
    return Person(
        source=Identity.Source.OIDC,
        subject=f"{token['iss']} {token['sub']}",
        username=str(username),
        first_name=str(claims.get("given_name") or claims.get("name") or ""),
        last_name=str(claims.get("family_name") or ""),
        email=str(claims.get("email") or "") if claims.get("email_verified", True) else "",
        groups=[str(group) for group in groups] if isinstance(groups, list) else str(groups).split(),
    )
