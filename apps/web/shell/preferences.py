"""Preferences stored in a browser's cookies."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from apps.web.shell.navigation import KEYS_COOKIE, THEME_COOKIE, THEMES
from apps.web.shell.requests import SeeOther

_YEAR_S = 365 * 86400


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Set the light, dark or system theme, then redirect back."""
    chosen = request.POST.get("theme", "")
    return _stored(request, THEME_COOKIE, chosen if chosen in THEMES else "")


@login_not_required
@require_POST
def keys(request: HttpRequest) -> HttpResponse:
    """Switch single-key shortcuts on or off in this browser, then redirect back."""
    return _stored(request, KEYS_COOKIE, "off" if request.POST.get("keys") == "off" else "")


def _stored(request: HttpRequest, cookie: str, value: str) -> HttpResponse:
    """Keep a preference, "" for the usual one, and redirect back."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        back = reverse("pages:overview")
    response = SeeOther(back)
    if value:
        secure = bool(settings.SESSION_COOKIE_SECURE)
        response.set_cookie(cookie, value, max_age=_YEAR_S, samesite="Lax", httponly=True, secure=secure)
    else:
        response.delete_cookie(cookie, samesite="Lax")
    return response
