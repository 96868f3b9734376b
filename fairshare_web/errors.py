"""Django has one handler a status for all faces: below /api/ it is a problem document, elsewhere a page."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponseBase

from apps.core.postgresql import may_repeat
from apps.web.rest import errors as api
from apps.web.shell import errors as pages


def is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith("/api/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if is_api(request):
        return api.bad_request(request, exception)
    return pages.bad_request(request, exception)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return api.forbidden(request) if is_api(request) else pages.forbidden(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return api.not_found(request) if is_api(request) else pages.not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    response = api.server_error(request) if is_api(request) else pages.server_error(request)
    response.is_repeatable = may_repeat(sys.exc_info()[1])  # type: ignore[attr-defined]  # by `fairshare_web.server`
    return response
