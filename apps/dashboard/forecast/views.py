"""Fragments of my priority: when it gets better, and what would become of it if."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.dashboard.forecast import presenters as forecast_pages
from apps.dashboard.my_priority.presenters import account_asked, frame_of
from apps.dashboard.shell.requests import fragment


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:my-priority")


@require_safe
@fragment(page_url)
def forecast(request: HttpRequest) -> HttpResponse:
    """`?policy=` and `?entry=` choose the account, `?share=` another pace in percent; the page's address takes it."""
    policy, entry = account_asked(request)
    request.GET = state = _state_of_page(request)  # type: ignore[assignment]  # it is only read from here on
    card = forecast_pages.forecast_card(request, policy, entry)
    context = {"forecast": card, "figures": {"forecast": card and frame_of(request, "forecast", policy, entry)}}
    status = 422 if card is not None and card.problem else 200
    response = render(request, "dashboard/my_priority/_forecast.html", context, status=status)
    response["HX-Push-Url"] = f"{page_url()}?{state.urlencode()}"
    return _private(response)


@require_safe
@fragment(page_url)
def what_if(request: HttpRequest) -> HttpResponse:
    """`?core_h=`, `?days=`, `?load=`, `?level=` and `?target=`; nothing is kept."""
    policy, entry = account_asked(request)
    card = forecast_pages.what_if_card(request, policy, entry)
    status = 422 if card is not None and card.message else 200
    return _private(render(request, "dashboard/my_priority/_whatif.html", {"what_if": card}, status=status))


def _state_of_page(request: HttpRequest) -> QueryDict:
    """The query of the page that asks, with what is asked here set anew."""
    state = QueryDict(urlsplit(request.headers.get("HX-Current-URL", "")).query, mutable=True)
    for name, values in request.GET.lists():
        state.setlist(name, values)
    return state


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-store"
    return response
