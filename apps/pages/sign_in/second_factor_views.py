"""Two-factor authentication: the second step of a sign-in by password, and the page to set it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast
from urllib.parse import quote, urlencode

import qrcode
from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_lockout_response
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.sign_in import second_factor
from apps.core import clock
from apps.core.errors import Invalid, NotAllowed
from apps.pages.sign_in import session
from apps.pages.sign_in.session import PendingSecondFactor
from apps.web import bounds
from apps.web.shell.forms import RefusableForm, read_action
from apps.web.shell.requests import SeeOther, actor_of
from apps.web.shell.sign_in_state import asks_password


class CodeForm(RefusableForm):
    """A one-time or recovery code; it may contain spaces, as apps show it."""

    default_field = "code"

    code = forms.CharField(
        label=gettext_lazy("Code"),
        max_length=bounds.NUMBER,
        widget=forms.TextInput(
            attrs={"class": "input", "autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and self.errors:
            self.fields["code"].widget.attrs["aria-invalid"] = "true"


QUIET = 4  # width of the white border that QR readers need, in modules


@dataclass(frozen=True)
class Qr:
    """A QR code as an SVG path: `d` draws its dark modules as unit squares inside a square of side `n`."""

    n: int
    d: str

    @property
    def view_box(self) -> str:
        return f"{-QUIET} {-QUIET} {self.n + 2 * QUIET} {self.n + 2 * QUIET}"


def draw_qr(text: str) -> Qr:
    code = qrcode.QRCode(border=0)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    return Qr(len(rows), "".join(part for y, row in enumerate(rows) for part in _runs(y, row)))


def _runs(y: int, row: list[bool]) -> list[str]:
    parts, x = [], 0
    for is_dark, run in groupby(row):
        width = len(list(run))
        if is_dark:
            parts.append(f"M{x} {y}h{width}v1h-{width}z")
        x += width
    return parts


@login_not_required
@never_cache
@sensitive_post_parameters("code", "ticket")
@require_http_methods(["GET", "HEAD", "POST"])
def step(request: HttpRequest) -> HttpResponse:
    """Ask for a code after the password, or let an administrator set up an app if the site requires one."""
    pending = session.pending_second_factor(request)
    if pending is None:
        return SeeOther(reverse("pages:sign-in"))
    credentials = {"username": pending.user.username}
    if not AxesProxyHandler.is_allowed(request, credentials):
        return cast(HttpResponse, get_lockout_response(request, credentials=credentials))
    if request.method != "POST":
        return _step_page(request, pending, CodeForm())
    form = CodeForm(request.POST)
    if not form.is_valid():
        return _step_page(request, pending, form, status=422)
    return _set_up_first(request, pending, form) if pending.sets_up else _check_code(request, pending, form)


def _check_code(request: HttpRequest, pending: PendingSecondFactor, form: CodeForm) -> HttpResponse:
    """Sign the user in if the code is right."""
    actor = session.pending_second_factor_actor(request, pending.user)
    try:
        fits = second_factor.check_second_factor(
            user=pending.user, code=form.cleaned_data["code"], at=clock.now(), actor=actor
        )
    except NotAllowed as refusal:
        form.add_refusal(refusal)
        return _step_page(request, pending, form, status=429)
    if not fits:
        session.failed(request, pending.user)
        form.add_error("code", ValidationError(_("Wrong code, or used already."), code="wrong_code"))
        return _step_page(request, pending, form, status=422)
    session.finish(request, pending)
    return SeeOther(pending.next)


def _set_up_first(request: HttpRequest, pending: PendingSecondFactor, form: CodeForm) -> HttpResponse:
    """Add the second factor that the site requires, then sign the user in."""
    secret = session.read_ticket(request.POST.get("ticket", ""), pending.user)
    actor = session.pending_second_factor_actor(request, pending.user)
    try:
        codes = second_factor.add_second_factor(
            user=pending.user, secret=secret, code=form.cleaned_data["code"], at=clock.now(), actor=actor
        )
    except Invalid as refusal:
        form.add_refusal(refusal)
        return _step_page(request, pending, form, secret=secret, status=422)
    session.finish(request, pending)
    return _own_page(request, codes=codes, where=pending.next)


def _step_page(
    request: HttpRequest, pending: PendingSecondFactor, form: CodeForm, *, secret: str = "", status: int = 200
) -> HttpResponse:
    more = _set_up(pending.user, secret or second_factor.new_secret()) if pending.sets_up else {}
    context = {"form": form, "site_label": settings.FAIRSHARE_SITE, "sets_up": pending.sets_up, **more}
    return render(request, "pages/sign_in/second_factor_step.html", context, status=status)


@never_cache
@sensitive_post_parameters("code", "ticket")
@require_http_methods(["GET", "HEAD", "POST"])
def own(request: HttpRequest) -> HttpResponse:
    """Set up or remove the user's own second factor, or renew its recovery codes; each needs a code."""
    action = read_action(request).step or "set_up"
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
    secret = session.read_ticket(request.POST.get("ticket", ""), user)
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
    return SeeOther(reverse("pages:second-factor"))


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
    """The page of the user's second factor. codes: new recovery codes, which are never shown again."""
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
        context |= _set_up(user, session.read_ticket(request.POST.get("ticket", ""), user))
    return render(request, "pages/sign_in/second_factor.html", context, status=status)


def _may_set_up(request: HttpRequest) -> bool:
    """Whether the user signs in by password; identity providers ask other users for a second factor themselves."""
    return asks_password(request)


def _set_up(user: User, secret: str) -> dict[str, Any]:
    """Secret for an authenticator app as QR code, as link to open on the phone, and as text to type."""
    issuer = f"Fairshare {settings.FAIRSHARE_SITE}"
    query = urlencode({"secret": secret, "issuer": issuer}, quote_via=quote)
    address = f"otpauth://totp/{quote(f'{issuer}:{user.username}')}?{query}"
    groups = " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
    return {
        "qr": draw_qr(address),
        "secret": groups,
        "address": address,
        "ticket": session.ticket_with(secret, user),
    }
