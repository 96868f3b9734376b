"""Sign in and out. Messages don't reveal whether a user name exists; lockouts are per user name and address."""

from __future__ import annotations

import ipaddress
import threading
import time
from typing import Any
from urllib.parse import urlencode

from axes.helpers import get_cache_timeout as get_cool_off_s
from axes.helpers import get_client_ip_address
from cachetools import LRUCache
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.selectors import display_name
from apps.accounts.sign_in.passwords import resets_by_mail
from apps.core.errors import NotFound, TooOften
from apps.pages.sign_in import oidc, session
from apps.pages.sign_in.session import url_after_sign_in
from apps.web.shell.errors import session_ended
from apps.web.shell.forms_in_place import is_in_place
from apps.web.shell.requests import SeeOther, is_htmx
from apps.web.shell.sign_in_state import signed_in_by

MOST_SIGN_INS_A_MINUTE = 30
_MOST_COUNTED_ADDRESSES = 10_000
_V6_SITE = 64  # prefix length of the IPv6 network of one customer

_minutes: LRUCache[str, tuple[int, int]] = LRUCache(_MOST_COUNTED_ADDRESSES)  # by address: minute, and attempts in it
_lock = threading.Lock()


def count_attempt(request: HttpRequest) -> None:
    """Count an attempt to sign in, before any password is hashed.

    Raises:
        TooOften: the address exceeds MOST_SIGN_INS_A_MINUTE attempts in this minute and process.
    """
    address, minute = _network(get_client_ip_address(request) or ""), minute_now()
    with _lock:
        counted_in, n_attempts = _minutes.pop(address, (minute, 0))
        n_attempts = n_attempts + 1 if counted_in == minute else 1
        _minutes[address] = (minute, n_attempts)
    if n_attempts > MOST_SIGN_INS_A_MINUTE:
        raise TooOften(_("Too many attempts to sign in came from your address. Wait a minute and try again."))


def minute_now() -> int:
    return int(time.monotonic() // 60)


def forget_attempts() -> None:
    with _lock:
        _minutes.clear()


def _network(address: str) -> str:
    try:
        ip_address = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip_address, ipaddress.IPv6Address) and ip_address.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip_address, _V6_SITE), strict=False))
    return address


class SignIn(LoginView):
    """Django's view with our page; htmx requests whose session has ended get a short note instead."""

    template_name = "pages/sign_in/sign_in.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return session_ended(request) if is_htmx(request) else super().get(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        count_attempt(request)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign the user in, or ask for the second factor first if the user needs one."""
        user = form.get_user()
        if not session.is_due(user):
            return super().form_valid(form)
        session.begin(self.request, user, self.get_success_url())
        return SeeOther(reverse("pages:second-step"))

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """The page with what was wrong; in the dialog over another page, the dialog."""
        name = "pages/sign_in/_again.html" if is_again(self.request) else self.template_name
        return render(self.request, name, self.get_context_data(form=form), status=422)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        elsewhere = settings.FAIRSHARE_OIDC_NAME if settings.FAIRSHARE_OIDC_ISSUER else ""
        return {
            **super().get_context_data(**kwargs),
            "site_label": settings.FAIRSHARE_SITE,
            "elsewhere": elsewhere,
            "resets": resets_by_mail(),
        }


def locked(request: HttpRequest, _answer: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """Response of django-axes to a locked-out user; Retry-After is the whole period, which each attempt restarts."""
    answer = render(request, "pages/sign_in/locked.html", status=429)
    answer["Retry-After"] = str(get_cool_off_s(request) or 0)
    return answer


sign_in = SignIn.as_view()


def is_again(request: HttpRequest) -> bool:
    """Whether the form of the dialog was sent, which signs in again over an open page."""
    return is_in_place(request) and request.POST.get("next") == reverse("pages:signed-in")


@login_not_required
@never_cache
@require_safe
def sign_in_again(request: HttpRequest) -> HttpResponse:
    """The dialog over a page whose session has ended. `user`: the name of the user who opened the page."""
    elsewhere = settings.FAIRSHARE_OIDC_NAME if settings.FAIRSHARE_OIDC_ISSUER else ""
    context = {"elsewhere": elsewhere, "next": reverse("pages:signed-in")}
    form = AuthenticationForm(request, initial={"username": request.GET.get("user", "")[:150]})
    return render(request, "pages/sign_in/_again.html", {**context, "form": form})


@login_not_required
@never_cache
@require_safe
def sign_in_state(request: HttpRequest) -> HttpResponse:
    """Who is signed in, and a form token of that session, for pages that were opened by an earlier one."""
    user = request.user
    names = {"user": user.username, "name": display_name(user.username)}
    state: dict[str, str | None] = {**names} if user.is_authenticated else {"user": None}
    return JsonResponse({**state, "token": get_token(request)})


@login_not_required
@never_cache
@require_safe
def signed_in(request: HttpRequest) -> HttpResponse:
    """End of a sign-in in a window beside the page that asked for it."""
    return render(request, "pages/sign_in/signed_in.html")


class SignOut(LogoutView):
    """End the session here; then link to the identity provider, which would otherwise sign the user in again."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        by = signed_in_by(request)
        elsewhere = oidc.end_session_address(request) if by == "oidc" and settings.FAIRSHARE_OIDC_ISSUER else ""
        answer = super().post(request, *args, **kwargs)
        if not by:
            return answer
        context = {
            "by": by,
            "address": elsewhere,
            "name": settings.FAIRSHARE_OIDC_NAME,
            "sign_out_url": settings.FAIRSHARE_TRUSTED_HEADER_SIGN_OUT if by == "header" else "",
        }
        return render(request, "pages/sign_in/signed_out.html", context)


sign_out = SignOut.as_view()


@login_not_required
@never_cache
@require_safe
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect Django admin's sign-in to ours, because its own form would skip the second factor."""
    if request.user.is_authenticated:
        if not request.user.is_staff:
            raise NotFound("There is nothing here for you.")
        return HttpResponseRedirect(reverse("admin:index"))
    wanted = url_after_sign_in(request, request.GET.get("next") or reverse("admin:index"))
    return HttpResponseRedirect(f"{reverse('pages:sign-in')}?{urlencode({'next': wanted})}")


@login_not_required
@never_cache
@require_POST
def oidc_start(request: HttpRequest) -> HttpResponse:
    """Page that redirects to the OpenID Connect issuer; the CSP's form-action forbids a redirect from a form."""
    _require_issuer()
    address = oidc.start(request, url_after_sign_in(request, request.POST.get("next")))
    context = {"address": address, "elsewhere": settings.FAIRSHARE_OIDC_NAME}
    return render(request, "pages/sign_in/leaving.html", context)


@login_not_required
@never_cache
@require_safe
def oidc_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Return from the issuer; the protocol requires that this GET request signs the user in."""
    _require_issuer()
    if provider_id != oidc.PROVIDER_ID:
        raise NotFound("There is no such sign-in.")
    return oidc.finish(request)


def _require_issuer() -> None:
    if not settings.FAIRSHARE_OIDC_ISSUER:
        raise NotFound("This site has no such sign-in.")
