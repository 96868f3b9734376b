"""The guides of docs/ as pages, each with the routes of REST that have the same numbers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.dashboard.help.documents import HOME, contents, read_document
from apps.dashboard.help.guides import rest_of


@require_safe
def show_help(request: HttpRequest, name: str = HOME) -> HttpResponse:
    document = read_document(name)
    crumbs = [{"label": _("Help"), "url": reverse("dashboard:help")}, {"label": document.title}]
    context = {
        "document": document,
        "parts": contents(),
        "rest": rest_of(f"{name}.md"),
        "crumbs": crumbs[-1:] if name == HOME else crumbs,
    }
    return render(request, "dashboard/help/help.html", context)
