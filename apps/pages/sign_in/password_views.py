"""Pages for the user's password and sessions, and for a new password by mail; based on Django's forms and views."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_lockout_response
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.password_validation import password_validators_help_texts
from django.contrib.auth.views import INTERNAL_RESET_SESSION_TOKEN, PasswordChangeView, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import Identity, User
from apps.accounts.sign_in import passwords, sessions
from apps.accounts.sign_in.sessions import SessionLine
from apps.core import clock
from apps.core.column_bounds import most_characters
from apps.core.errors import NotFound
from apps.pages.sign_in import session
from apps.pages.sign_in.views import count_attempt
from apps.web.shell.requests import SeeOther, actor_of

_BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux")


def _dress(form: forms.Form) -> None:
    for field in form.fields.values():
        field.widget.attrs["class"] = "input"
        field.help_text = ""
    if "new_password1" in form.fields:
        form.fields["new_password1"].help_text = " ".join(password_validators_help_texts())


class ChangeForm(PasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _dress(self)
        self.fields["old_password"].widget.attrs.pop("autofocus", None)  # the list of sessions comes first


class NewForm(SetPasswordForm):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _dress(self)


class AskForm(forms.Form):
    email = forms.EmailField(
        label=gettext_lazy("E-mail"),
        max_length=most_characters(User, "email"),
        widget=forms.EmailInput(attrs={"class": "input", "autocomplete": "email"}),
    )


class ChangePassword(PasswordChangeView):
    """Django's view; a wrong current password counts for the lockout, so that a stolen session can't guess it."""

    template_name = "pages/sign_in/password.html"
    form_class = ChangeForm

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        count_attempt(request)
        credentials = {"username": cast(User, request.user).username}
        if not AxesProxyHandler.is_allowed(request, credentials):
            return cast(HttpResponse, get_lockout_response(request, credentials=credentials))
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        user, request = cast(User, self.request.user), self.request
        with transaction.atomic():
            passwords.change_password(
                user=user,
                password=form.cleaned_data["new_password1"],
                this_key=request.session.session_key or "",
                at=clock.now(),
                actor=actor_of(request),
            )
            update_session_auth_hash(request, user)
        messages.success(request, _("Password changed; your other sessions have ended"))
        return SeeOther(reverse("pages:password"))

    def form_invalid(self, form: Any) -> HttpResponse:
        if form.has_error("old_password", "password_incorrect"):
            session.failed(self.request, cast(User, self.request.user))
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        request = self.request
        key, actor = request.session.session_key or "", actor_of(request)
        rows = sessions.list_sessions(at=clock.now(), this_key=key, actor=actor)
        return {
            **super().get_context_data(**kwargs),
            "lives": password_location_text(cast(User, request.user)),
            "rows": [SessionRow(line, _device(line.agent)) for line in rows],
            "n_others": sum(not line.is_this_one for line in rows),
            "crumbs": [{"label": _("Password and sessions")}],
        }


own = never_cache(ChangePassword.as_view())


def password_location_text(user: User) -> str:
    """Sentence on where the user changes the password; empty if that is here."""
    sentences = {
        "": "",
        Identity.Source.OIDC: _("You sign in with %(name)s: change your password there.")
        % {"name": settings.FAIRSHARE_OIDC_NAME},
        Identity.Source.LDAP: _("You sign in with your site’s directory (LDAP): change your password there."),
        Identity.Source.HEADER: _("Your site’s proxy signs you in: change your password where it asks for it."),
    }
    return sentences.get(
        passwords.password_source(user), _("Your account has no password here: ask your site’s support.")
    )


@dataclass(frozen=True, slots=True)
class SessionRow:
    line: SessionLine
    device: str


def _device(agent: str) -> str:
    """Browser and operating system from a User-Agent header; empty if neither is known."""
    browser = next((name for mark, name in _BROWSERS if f"{mark}/" in agent), "")
    system = next((name for name in _SYSTEMS if re.search(rf"\b{name}\b", agent)), "").replace("Mac OS X", "macOS")
    if not browser or not system:
        return browser or system or agent.split("/")[0][:40]
    return _("%(name)s on %(place)s") % {"name": browser, "place": system}


@never_cache
@require_POST
def end_sessions(request: HttpRequest) -> HttpResponse:
    """End the session with a name, or all other sessions of the user."""
    at, key, actor = clock.now(), request.session.session_key or "", actor_of(request)
    name = request.POST.get("session", "")
    if name:
        sessions.end_session(name=name, this_key=key, at=at, actor=actor)
        n_ended = 1
    else:
        n_ended = sessions.end_other_sessions(this_key=key, at=at, actor=actor)
    messages.success(request, ngettext("%(n)s session ended", "%(n)s sessions ended", n_ended) % {"n": n_ended})
    return SeeOther(reverse("pages:password"))


def _require_mail() -> None:
    if not passwords.resets_by_mail():
        raise NotFound(_("This site sends no mail for passwords: ask its support."))


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def ask_reset(request: HttpRequest) -> HttpResponse:
    """Ask for a mail with a link. The response and its timing are the same whether or not the address is known."""
    _require_mail()
    form, status = AskForm(request.POST if request.method == "POST" else None), 200
    if request.method == "POST":
        count_attempt(request)
        if form.is_valid():
            passwords.request_reset(address=form.cleaned_data["email"], at=clock.now())
            return render(request, "pages/sign_in/reset.html", {"site_label": settings.FAIRSHARE_SITE})
        status = 422
    context = {"form": form, "site_label": settings.FAIRSHARE_SITE}
    return render(request, "pages/sign_in/reset.html", context, status=status)


@method_decorator(login_not_required, name="dispatch")
class ConfirmReset(PasswordResetConfirmView):
    """Django's view: the link is valid once and for an hour, and its token moves from the URL into the session."""

    template_name = "pages/sign_in/reset_confirm.html"
    form_class = NewForm

    def dispatch(self, *args: Any, **kwargs: Any) -> HttpResponse:
        _require_mail()
        return cast(HttpResponse, super().dispatch(*args, **kwargs))

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        count_attempt(request)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        user = cast(User, self.user)
        passwords.reset_password(
            user=user,
            password=form.cleaned_data["new_password1"],
            at=clock.now(),
            actor=session.pending_second_factor_actor(self.request, user),
        )
        del self.request.session[INTERNAL_RESET_SESSION_TOKEN]
        messages.success(self.request, _("Your new password is set: sign in with it"))
        return SeeOther(reverse("pages:sign-in"))

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        """Render with status 404 if the link is no longer valid."""
        kwargs.setdefault("status", 200 if self.validlink else 404)
        return super().render_to_response(context, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "site_label": settings.FAIRSHARE_SITE}


confirm_reset = ConfirmReset.as_view()
