"""The user's mail settings, and unsubscribing by the link of a mail."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from apps.contrib.notices import mail as mail_message
from apps.contrib.notices import mail_preferences
from apps.contrib.notices.kinds import KINDS
from apps.contrib.notices.pages.forms import MailForm
from apps.core import clock
from apps.core.errors import Invalid
from apps.web.shell.requests import SeeOther, actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def mail(request: HttpRequest) -> HttpResponse:
    """Mail settings of the user; every mail links here, so that it can be stopped."""
    actor = actor_of(request)
    mail_settings = mail_preferences.get_mail_settings(actor=actor)
    chosen = mail_settings.preference
    wanted = [kind.name for kind in KINDS if kind.name not in chosen.muted]
    initial: dict[str, Any] = {"interval": chosen.interval, "hour": chosen.hour, "kinds": wanted}
    initial["statements"] = chosen.statements_since is not None
    form = MailForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        cleaned_data = form.cleaned_data
        try:
            mail_preferences.set_preference(
                interval=cleaned_data["interval"], hour=cleaned_data["hour"], muted=form.muted(), actor=actor
            )
        except Invalid as error:
            form.add_refusal(error)
        else:
            mail_preferences.set_statement_mail(wanted=cleaned_data["statements"], at=clock.now(), actor=actor)
            messages.success(request, _("Saved"))
            return SeeOther(reverse("pages:notice-mail"))
    notices = reverse("pages:notices")
    context = {
        "form": form,
        "mail_settings": mail_settings,
        "zone": settings.TIME_ZONE,
        "crumbs": [{"label": _("Notices"), "url": notices}, {"label": _("E-mail notices")}],
    }
    return render(request, "contrib/notices/mail.html", context, status=form.status)


@login_not_required
@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Unsubscribe by a signed link. Mail programs POST without asking (RFC 8058); people confirm on the page first,
    because programs also follow links.

    The signature authorises the request, so it needs no session and no CSRF token.
    """
    _user, is_statement = mail_message.read_unsubscribe(token)
    if request.method == "POST":
        mail_message.unsubscribe(token)
    context = {"is_done": request.method == "POST", "is_statement": is_statement}
    return render(request, "contrib/notices/unsubscribe.html", context)
