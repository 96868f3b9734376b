"""Sign-in by OpenID Connect: allauth implements the protocol, settings name the issuer, `people` maps to users."""

from __future__ import annotations

import logging
import secrets
import ssl
from typing import Any, NoReturn
from urllib.parse import quote_plus, urlencode

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from requests import PreparedRequest, RequestException, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidProxyURL

from apps.accounts.models import Identity
from apps.accounts.people import Person, update_or_create_user
from apps.accounts.sign_in.id_token import InvalidToken, verify_id_token
from apps.core import clock
from apps.core.addresses import Target, split_address
from apps.core.errors import DomainError, Invalid, Unavailable
from apps.core.outbound_proxy import Proxy, proxy_for
from apps.pages.sign_in.session import sign_in, url_after_sign_in
from apps.web.shell.errors import Refusal, refusal_of, refuse
from apps.web.shell.requests import SeeOther

log = logging.getLogger(__name__)

PROVIDER_ID = "site"
_HINT = "oidc_hint"  # ID token in the session; with it the issuer signs out without asking
CALLBACK = "openid_connect_callback"  # URL name that allauth expects


class CheckedAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """Adapter that reads the issuer's documents itself: allauth skips the ID token's signature and needs a `kid`."""

    @property
    def openid_config(self) -> dict[str, Any]:
        """The issuer's discovery document (OpenID Connect Discovery 1.0, 4.3).

        Raises:
            OAuth2Error: it is another issuer's, or an endpoint is missing.
        """
        if not hasattr(self, "_openid_config"):
            self._openid_config = _checked_config(super().openid_config)
        return self._openid_config

    @property
    def basic_auth(self) -> bool:
        """Whether the client's secret is sent by Basic, as to an issuer that names no method (Discovery 1.0, 3)."""
        methods = self.openid_config.get("token_endpoint_auth_methods_supported")
        if not isinstance(methods, list):
            methods = ["client_secret_basic"]
        return "client_secret_post" not in methods and "client_secret_basic" in methods

    def get_access_token_data(
        self, request: HttpRequest, app: SocialApp, client: Any, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """The answer of the token endpoint.

        Raises:
            OAuth2Error: it is no answer of OAuth 2.0.
        """
        if self.basic_auth:  # both are encoded as a form's values first (RFC 6749, 2.3.1)
            client.consumer_key, client.consumer_secret = map(quote_plus, (client.consumer_key, client.consumer_secret))
        try:
            data = super().get_access_token_data(request, app, client, *args, **kwargs)
        except KeyError as error:  # allauth reads its Content-Type without asking
            raise OAuth2Error("the token endpoint names no Content-Type") from error
        if not isinstance(data, dict):
            raise OAuth2Error("the token endpoint answers no object")
        return data

    def parse_token(self, data: dict[str, Any]) -> SocialToken:
        """The access token; it is used once, so that its expiry doesn't matter."""
        return SocialToken(token=str(data["access_token"]))

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, *, response: dict[str, Any], **_more: Any
    ) -> SocialLogin:
        """Claims of the ID token and, where the issuer offers it, of userinfo, which is optional in discovery.

        Raises:
            OAuth2Error: userinfo is unusable. `pre_social_login`, which knows the nonce, verifies the ID token.
        """
        data = {"id_token": response.get("id_token"), "access_token": token.token}
        if "userinfo_endpoint" in self.openid_config:
            data["userinfo"] = self._fetch_user_info(token.token)
            if not isinstance(data["userinfo"], dict):
                raise OAuth2Error("userinfo is not an object")
        return SocialLogin(account=SocialAccount(provider=PROVIDER_ID, extra_data=data))

    def key_set(self) -> Any:
        """The issuer's public keys as published now, as it may rotate them: one request a code."""
        with SiteAdapter(self.request).get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
        return answer.json()


def read_issuer(*, timeout_s: float) -> None:
    """Read the issuer's discovery document, as a sign-in does.

    Raises:
        RequestException: no answer, or none with a document.
        OAuth2Error: it is another issuer's, or an endpoint is missing.
    """
    base = settings.FAIRSHARE_OIDC_ISSUER.rstrip("/")
    url = base if "/.well-known/" in base else f"{base}/.well-known/openid-configuration"
    with SiteAdapter(None).get_requests_session() as session:
        answer = session.get(url, timeout=timeout_s)
        answer.raise_for_status()
        _checked_config(answer.json())


def _checked_config(config: Any) -> dict[str, Any]:
    wanted = settings.FAIRSHARE_OIDC_ISSUER.partition("/.well-known/")[0]
    if not isinstance(config, dict):
        raise OAuth2Error("the discovery document is not an object")
    if not isinstance(config.get("issuer"), str) or config["issuer"].rstrip("/") != wanted.rstrip("/"):
        raise OAuth2Error(f"the discovery document is of the issuer {config.get('issuer')!r}, not of {wanted}")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        if not _is_web_address(config.get(name)):
            raise OAuth2Error(f"{name} of the discovery document is not a web address")
    if not _is_web_address(config.get("userinfo_endpoint")):
        config.pop("userinfo_endpoint", None)
    return config


def _is_web_address(value: Any) -> bool:
    return isinstance(value, str) and split_address(value).scheme in ("https", "http")


class _SiteRoad(HTTPAdapter):
    """Requests through the site's proxy, if there is one, never through one of the environment.

    The site's own authority is trusted beside those that `requests` trusts: the issuer may be certified by either.
    """

    _proxy: Proxy | None = None

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=_own_authority())

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        """Credentials in UTF-8, and never within an address, which errors would quote."""
        return self._proxy.headers if self._proxy else {}

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        trusted = {"ssl_context": _own_authority(), "proxy_ssl_context": _own_authority()}
        return super().proxy_manager_for(proxy, **kwargs, **trusted)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        parts = split_address(request.url or "")
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
        try:
            proxy = proxy_for(Target(parts.scheme, parts.hostname or "", port, "/"))
        except Unavailable as error:  # as any other fault of the way to the issuer
            raise InvalidProxyURL(str(error)) from error
        self._proxy = proxy
        kwargs["proxies"] = {} if proxy is None else {"http": proxy.url, "https": proxy.url}
        return super().send(request, *args, **kwargs)


def _own_authority() -> ssl.SSLContext | None:
    file = settings.FAIRSHARE_OUTBOUND_CA_FILE
    return ssl.create_default_context(cafile=file) if file else None


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

    def get_requests_session(self) -> Session:
        session: Session = super().get_requests_session()
        for scheme in ("https://", "http://"):
            session.mount(scheme, _SiteRoad())
        return session

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> NoReturn:
        """Sign in the user whom the claims identify; always ends the request with a response."""
        data, state = sociallogin.account.extra_data, sociallogin.state
        adapter = CheckedAdapter(request, PROVIDER_ID)
        try:
            token = verify_id_token(
                data["id_token"],
                key_set=adapter.key_set(),
                issuer=adapter.openid_config["issuer"],
                client_id=settings.FAIRSHARE_OIDC_CLIENT_ID,
                nonce=str(state.get("nonce", "")),
                access_token=data["access_token"],
            )
            claims = {**token, **data.get("userinfo", {})}
            if claims["sub"] != token["sub"]:
                raise InvalidToken("userinfo is of another subject than the ID token")
            user = update_or_create_user(
                _person(token, claims), at=clock.now(), address=request.META.get("REMOTE_ADDR")
            )
        except (InvalidToken, OAuth2Error, RequestException) as reason:
            raise ImmediateHttpResponse(failed(request, reason)) from reason
        except DomainError as refusal:
            log.warning("Sign-in by OpenID Connect is refused: %s", refusal)
            raise ImmediateHttpResponse(refuse(request, refusal_of(refusal))) from refusal
        sign_in(request, user, by=Identity.Source.OIDC)
        request.session[_HINT] = data["id_token"]
        raise ImmediateHttpResponse(SeeOther(url_after_sign_in(request, state.get("next"))))

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, **_details: Any
    ) -> NoReturn:
        raise ImmediateHttpResponse(failed(request, exception or error))


def start(request: HttpRequest, next_url: str) -> str:
    """URL of the issuer's sign-in; raises Unavailable if the issuer does not respond."""
    nonce = secrets.token_urlsafe(24)
    provider = SiteProvider(request, app=SiteAdapter(request).list_apps(request)[0])
    try:
        answer = provider.redirect(request, "login", next_url=next_url, auth_params={"nonce": nonce}, nonce=nonce)
    except (OAuth2Error, RequestException) as error:
        log.error("The issuer of OpenID Connect can't be used: %s", error)
        raise Unavailable(
            _("Your site’s sign-in service does not answer: try again in a moment."), code="oidc_down"
        ) from error
    return str(answer["Location"])


def finish(request: HttpRequest) -> HttpResponse:
    """Response to the return from the issuer: signed in, or refused with a reason in the log."""
    try:
        answer: HttpResponse = OAuth2CallbackView.adapter_view(CheckedAdapter(request, PROVIDER_ID))(request)
    except (OAuth2Error, RequestException) as reason:
        return failed(request, reason)
    return answer


def end_session_address(request: HttpRequest) -> str:
    """URL at which the issuer ends its own session and returns here (OpenID Connect RP-Initiated Logout 1.0).

    Empty if the issuer offers none or does not respond. Call it before the session here ends.
    """
    try:
        config = CheckedAdapter(request, PROVIDER_ID).openid_config
        endpoint = str(config.get("end_session_endpoint") or "")
    except (OAuth2Error, RequestException):
        return ""
    if not _is_web_address(endpoint):
        return ""
    parameters = {
        "client_id": settings.FAIRSHARE_OIDC_CLIENT_ID,
        "post_logout_redirect_uri": request.build_absolute_uri(reverse("pages:sign-in")),
    }
    if request.session.get(_HINT):
        parameters["id_token_hint"] = request.session[_HINT]
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"


def failed(request: HttpRequest, reason: object) -> HttpResponse:
    """Response to a failed sign-in. The reason is for the operator's log; the page does not reveal it."""
    log.warning("Sign-in by OpenID Connect failed: %s", reason)
    message = _("The sign-in was not completed, or took too long. Start again from the sign-in page.")
    return refuse(request, Refusal(403, _("You are not signed in"), message, "sign_in_failed"))


def _person(token: dict[str, Any], claims: dict[str, Any]) -> Person:
    """The person in the claims. Names and addresses are text; a claim of another type counts as not sent.

    Raises:
        Invalid: the user name is neither text nor a number.
    """
    username = claims.get(settings.FAIRSHARE_OIDC_USERNAME_CLAIM) or token["sub"]
    if type(username) not in (str, int):
        raise Invalid(_("Your sign-in sends no usable user name: contact your site’s support."))
    return Person(
        source=Identity.Source.OIDC,
        subject=f"{token['iss']} {token['sub']}",
        username=str(username),
        first_name=_text(claims, "given_name") or _text(claims, "name"),
        last_name=_text(claims, "family_name"),
        email=_text(claims, "email") if claims.get("email_verified") is True else "",
        groups=_groups(claims.get(settings.FAIRSHARE_OIDC_GROUPS_CLAIM)),
    )


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    is_storable = isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
    return str(value) if is_storable else ""


def _groups(value: Any) -> list[str]:
    """Names in a list, or in one text with spaces between."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [name for name in value if isinstance(name, str) and name.strip()]
    if value is not None:
        log.warning("%s is neither a list nor text: no groups are read.", settings.FAIRSHARE_OIDC_GROUPS_CLAIM)
    return []
