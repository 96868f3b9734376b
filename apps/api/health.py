"""Is the process alive, is it ready, and how is it doing: answered without session."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b'{"status":"ok"}', content_type="application/json")


@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    return healthz(request)


@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"", content_type="text/plain; version=0.0.4")


_VIEWS: dict[str, Callable[[HttpRequest], HttpResponse]] = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


class HealthMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        view = _VIEWS.get(request.path_info)
        return view(request) if view else self.get_response(request)
