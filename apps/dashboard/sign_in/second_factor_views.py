"""The second step of a sign-in by password, and the page on which everybody sets up their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import quote, urlencode

from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_lockout_response
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.sign_in import second_factor
from apps.core import clock
from apps.core.errors import Invalid, NotAllowed
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther
from apps.dashboard.sign_in import second_step
from apps.dashboard.sign_in.forms import CodeForm
from apps.dashboard.sign_in.qr import draw_qr
from apps.dashboard.sign_in.second_step import Owing
from apps.dashboard.sign_in.signed_in import asks_password


@login_not_required
@never_cache
@sensitive_post_parameters("code", "ticket")
@require_http_methods(["GET", "HEAD", "POST"])
def step(request: HttpRequest) -> HttpResponse:
    """After the password: a code, or (where the site asks it of administrators) setting an app up."""
    found = second_step.owing(request)
    if found is None:
        return SeeOther(reverse("dashboard:sign-in"))
    credentials = {"username": found.user.username}
    if not AxesProxyHandler.is_allowed(request, credentials):
        return cast(HttpResponse, get_lockout_response(request, credentials=credentials))
    if request.method != "POST":
        return _step_page(request, found, CodeForm())
    form = CodeForm(request.POST)
    if not form.is_valid():
        return _step_page(request, found, form, status=422)
    return _set_up_first(request, found, form) if found.sets_up else _let_in(request, found, form)


def _let_in(request: HttpRequest, found: Owing, form: CodeForm) -> HttpResponse:
    actor = second_step.actor_owing(request, found.user)
    try:
        fits = second_factor.check_second_factor(
            user=found.user, code=form.cleaned_data["code"], at=clock.now(), actor=actor
        )
    except NotAllowed as refusal:
        form.add_refusal(refusal)
        return _step_page(request, found, form, status=429)
    if not fits:
        second_step.failed(request, found.user)
        form.add_error("code", ValidationError(_("Wrong code, or used already."), code="wrong_code"))
        return _step_page(request, found, form, status=422)
    second_step.finish(request, found)
    return SeeOther(found.next)


def _set_up_first(request: HttpRequest, found: Owing, form: CodeForm) -> HttpResponse:
    secret = second_step.read_ticket(request.POST.get("ticket", ""), found.user)
    actor = second_step.actor_owing(request, found.user)
    try:
        codes = second_factor.add_second_factor(
            user=found.user, secret=secret, code=form.cleaned_data["code"], at=clock.now(), actor=actor
        )
    except Invalid as refusal:
        form.add_refusal(refusal)
        return _step_page(request, found, form, secret=secret, status=422)
    second_step.finish(request, found)
    return _own_page(request, codes=codes, where=found.next)


def _step_page(
    request: HttpRequest, found: Owing, form: CodeForm, *, secret: str = "", status: int = 200
) -> HttpResponse:
    more = _set_up(found.user, secret or second_factor.new_secret()) if found.sets_up else {}
    context = {"form": form, "site_label": settings.FAIRSHARE_SITE, "sets_up": found.sets_up, **more}
    return render(request, "dashboard/second_factor/step.html", context, status=status)


@never_cache
@sensitive_post_parameters("code", "ticket")
@require_http_methods(["GET", "HEAD", "POST"])
def own(request: HttpRequest) -> HttpResponse:
    """One's own: set up, new recovery codes, taken away. Each with a code."""
    action = request.POST.get("step", "set_up")
    if request.method != "POST" or action not in _STEPS:
        return _own_page(request)
    form = _form(action, request.POST)
    if not form.is_valid():
        return _own_page(request, form=form, action=action, status=422)
    try:
        return _STEPS[action](request, form.cleaned_data["code"])
    except Invalid as refusal:
        form.add_refusal(refusal)
        return _own_page(request, form=form, action=action, status=422)


def _add(request: HttpRequest, code: str) -> HttpResponse:
    if not _may_set_up(request):
        raise NotAllowed(_("You sign in elsewhere: two-factor authentication is set up there."))
    user = cast(User, request.user)
    secret = second_step.read_ticket(request.POST.get("ticket", ""), user)
    codes = second_factor.add_second_factor(
        user=user, secret=secret, code=code, at=clock.now(), actor=actor_of(request)
    )
    return _own_page(request, codes=codes)


def _renew(request: HttpRequest, code: str) -> HttpResponse:
    user = cast(User, request.user)
    codes = second_factor.renew_recovery_codes(user=user, code=code, at=clock.now(), actor=actor_of(request))
    return _own_page(request, codes=codes)


def _remove(request: HttpRequest, code: str) -> HttpResponse:
    user = cast(User, request.user)
    second_factor.remove_second_factor(user=user, code=code, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Two-factor authentication is off"))
    return SeeOther(reverse("dashboard:second-factor"))


_STEPS: dict[str, Callable[[HttpRequest, str], HttpResponse]] = {"set_up": _add, "codes": _renew, "remove": _remove}


def _form(action: str, data: Any = None) -> CodeForm:
    return CodeForm(data, auto_id=f"id_{action}_%s")


def _own_page(
    request: HttpRequest,
    *,
    form: CodeForm | None = None,
    action: str = "",
    codes: Sequence[str] = (),
    where: str = "",
    status: int = 200,
) -> HttpResponse:
    """`codes` are shown this once."""
    user = cast(User, request.user)
    has_one = second_factor.has_second_factor(user)
    context: dict[str, Any] = {
        "has_one": has_one,
        "may_set_up": _may_set_up(request),
        "is_needed": second_factor.needs_second_factor(user),
        "n_left": second_factor.n_codes_left(user),
        "codes": codes,
        "next": where,
        "crumbs": [{"label": _("Two-factor authentication")}],
        "forms": {name: form if form is not None and name == action else _form(name) for name in _STEPS},
    }
    if not has_one and context["may_set_up"]:
        context |= _set_up(user, second_step.read_ticket(request.POST.get("ticket", ""), user))
    return render(request, "dashboard/second_factor/own.html", context, status=status)


def _may_set_up(request: HttpRequest) -> bool:
    """Whoever signs in by password here; others are asked by whoever vouches for them."""
    return asks_password(request)


def _set_up(user: User, secret: str) -> dict[str, Any]:
    """What the app needs: as a picture, as a link on the phone itself, and by hand."""
    issuer = f"Fairshare {settings.FAIRSHARE_SITE}"
    query = urlencode({"secret": secret, "issuer": issuer}, quote_via=quote)
    address = f"otpauth://totp/{quote(f'{issuer}:{user.username}')}?{query}"
    groups = " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
    return {
        "qr": draw_qr(address),
        "secret": groups,
        "address": address,
        "ticket": second_step.ticket_with(secret, user),
    }
