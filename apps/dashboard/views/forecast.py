"""Fragments of my priority: when it gets better, and what would become of it if."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.dashboard import forecast_lines, forecast_pages
from apps.dashboard.downloads import csv_response
from apps.dashboard.htmx import fragment
from apps.errors import NotFound


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:my-priority")


@require_safe
@fragment(page_url)
def forecast(request: HttpRequest) -> HttpResponse:
    """`?policy=` and `?entry=` choose the account, `?level=` what is drawn, `?share=` another pace in percent."""
    policy, entry = _named(request)
    card = forecast_pages.forecast_card(request, policy, entry)
    status = 422 if card is not None and card.problem else 200
    return _private(render(request, "dashboard/me/_forecast.html", {"forecast": card}, status=status))


@require_safe
@fragment(page_url)
def what_if(request: HttpRequest) -> HttpResponse:
    """`?core_h=`, `?days=`, `?load=`, `?level=` and `?target=`; nothing is kept."""
    policy, entry = _named(request)
    card = forecast_pages.what_if_card(request, policy, entry)
    status = 422 if card is not None and card.message else 200
    return _private(render(request, "dashboard/me/_whatif.html", {"what_if": card}, status=status))


@require_safe
def table(request: HttpRequest) -> HttpResponseBase:
    """The curve as CSV: days so far, and those to come."""
    policy, entry = _named(request)
    found = forecast_pages.forecast_asked(request, policy, entry)
    if found is None:
        raise NotFound("There is no such account in this policy.")
    rows = forecast_lines.table_of(found, request.GET.get("level", ""))
    return csv_response(f"{policy}-forecast.csv", forecast_lines.HEADER, rows)


def _named(request: HttpRequest) -> tuple[str, UUID]:
    try:
        return request.GET.get("policy", ""), UUID(request.GET.get("entry", ""))
    except ValueError as error:
        raise NotFound("There is no such account in this policy.") from error


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-store"
    return response
