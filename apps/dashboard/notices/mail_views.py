"""How somebody wants to be written to about notices."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.core.errors import Invalid
from apps.dashboard.notices.forms import MailForm
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther
from apps.notices import preferences
from apps.notices.kinds import kinds


@require_http_methods(["GET", "HEAD", "POST"])
def mail(request: HttpRequest) -> HttpResponse:
    """Mail leads here to be stopped: one choice, one button."""
    actor = actor_of(request)
    found = preferences.get_mail_settings(actor=actor)
    chosen = found.preference
    wanted = [name for name in kinds() if name not in chosen.muted]
    form = MailForm(request.POST or None, initial={"interval": chosen.interval, "hour": chosen.hour, "kinds": wanted})
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            preferences.set_preference(interval=given["interval"], hour=given["hour"], muted=form.muted(), actor=actor)
        except Invalid as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("Saved"))
            return SeeOther(reverse("dashboard:notice-mail"))
    notices = reverse("dashboard:notices")
    context = {
        "form": form,
        "found": found,
        "zone": settings.TIME_ZONE,
        "crumbs": [{"label": _("Notices"), "url": notices}, {"label": _("E-mail")}],
    }
    return render(request, "dashboard/notices/mail.html", context, status=422 if form.errors else 200)
