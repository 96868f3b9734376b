"""Errors as HTTP answers: problem documents of RFC 9457 with stable codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation, TooManyFieldsSent
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response

from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError, FieldProblem, NotFound, Unavailable, status_of
from apps.core.postgresql import is_busy, may_repeat
from apps.engine.errors import PackageFailed
from apps.web.rest.rendering import dumps
from apps.web.rest.requests import request_id

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
NOT_FOUND = "Not found, or not visible to you."


class Refusal(DomainError):
    """An error of the REST interface itself, such as bad syntax or a missing precondition."""

    code = "bad_request"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int = 400,
        fields: Iterable[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, fields=tuple(fields))
        self.status = status
        self.headers = dict(headers or {})


def problem(
    request: HttpRequest,
    status: int,
    code: str,
    detail: str,
    *,
    fields: Iterable[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> HttpResponse:
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "fields": [{"where": field.where, "message": field.message} for field in fields],
        "request_id": request_id(request),
        **(extra or {}),
    }
    response = HttpResponse(dumps(document), status=status, content_type=CONTENT_TYPE)
    for name, value in (headers or {}).items():
        response[name] = value
    return response


def domain_problem(request: HttpRequest, error: DomainError) -> HttpResponse:
    headers: dict[str, str] = {}
    request.refused_because = error.message  # type: ignore[attr-defined]
    if isinstance(error, Refusal):
        status, headers = error.status, error.headers
    else:
        status = status_of(error)
    if status in (413, 429, 503):
        headers.setdefault("Retry-After", str(RETRY_AFTER_S))
    if status == 401:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="fairshare"')
    if isinstance(error, NotFound):  # one text for all: hidden and missing objects are indistinguishable
        return problem(request, 404, "not_found", NOT_FOUND)
    conflicts = getattr(error, "conflicts", None)
    extra = None if conflicts is None else {"conflicts": [conflict.to_json() for conflict in conflicts]}
    return problem(request, status, error.code, error.message, fields=error.fields, headers=headers, extra=extra)


def database_problem(request: HttpRequest) -> HttpResponse:
    request.refused_because = "The database is not available."  # type: ignore[attr-defined]
    return problem(
        request,
        503,
        "database_down",
        "The database is not available. Look-ups of priorities with a token still work; try other requests later.",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def busy_problem(request: HttpRequest, error: BaseException) -> HttpResponse:
    log.warning("%s %s: the database is busy: %s", request.method, request.path, error)
    message = "Other requests held the same rows for too long. Nothing was saved; send the request again."
    response = problem(request, 503, "busy", message, headers={"Retry-After": str(RETRY_AFTER_S)})
    response.is_repeatable = may_repeat(error)  # type: ignore[attr-defined]  # the server repeats the request
    return response


def disk_problem(request: HttpRequest, message: str) -> HttpResponse:
    return problem(request, 503, "disk_full", message, headers={"Retry-After": str(RETRY_AFTER_S)})


def problem_handler(error: Exception, context: dict[str, Any]) -> Response | HttpResponse | None:
    """Exception handler of DRF. Unknown exceptions are raised on to `server_error`, which logs the traceback."""
    request: HttpRequest = context["request"]._request
    if isinstance(error, PackageFailed):  # an installed package with algorithms or operators
        error = Unavailable(f"{error.message}.", code=error.code)
    if isinstance(error, DomainError):
        return domain_problem(request, error)
    if message := disk_full_message(error):
        log.error("%s %s: %s", request.method, request.path, message)
        return disk_problem(request, message)
    if is_busy(error):
        return busy_problem(request, error)
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("%s %s: no database: %s", request.method, request.path, error)
        return database_problem(request)
    if isinstance(error, Http404):
        return problem(request, 404, "not_found", NOT_FOUND)
    if isinstance(error, PermissionDenied):
        return problem(request, 403, "not_allowed", "You are not allowed to do this.")
    if isinstance(error, RequestDataTooBig):
        return too_large(request)
    if isinstance(error, exceptions.APIException):
        return _framework_problem(request, error)
    return None


def _framework_problem(request: HttpRequest, error: exceptions.APIException) -> HttpResponse:
    headers: dict[str, str] = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(max(1, int(wait + 0.999)))
    elif error.status_code in (413, 429, 503):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if isinstance(error, exceptions.ValidationError):
        fields = list(_field_problems(error.detail))
        detail = "Some fields are wrong: " + "; ".join(f"{field.where}: {field.message}" for field in fields[:3])
        return problem(request, 400, "invalid", detail, fields=fields)
    code = str(error.default_code)
    detail = str(error.detail)
    if isinstance(error, exceptions.PermissionDenied) and detail.startswith("CSRF"):
        code, detail = "csrf_failed", "The CSRF token is missing or wrong: reload the page, or use a bearer token."
    return problem(request, error.status_code, code, detail, headers=headers)


def _field_problems(detail: Any, where: str = "") -> Iterable[FieldProblem]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            place = where if name == "non_field_errors" else f"{where}.{name}" if where else str(name)
            yield from _field_problems(inner, place)
    elif isinstance(detail, list):
        for i, inner in enumerate(detail):
            nested = isinstance(inner, dict | list)
            yield from _field_problems(inner, f"{where}[{i}]" if nested else where)
    else:
        yield FieldProblem(where or "body", str(detail))


def too_large(request: HttpRequest) -> HttpResponse:
    return problem(
        request,
        413,
        "too_large",
        "The body is over 32 MB: send it in parts.",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def not_found(request: HttpRequest, *_: object, **__: object) -> HttpResponse:
    return problem(request, 404, "not_found", NOT_FOUND)


def forbidden(request: HttpRequest, *_: object) -> HttpResponse:
    return problem(request, 403, "not_allowed", "You may see this, but not do that.")


def bad_request(request: HttpRequest, error: Exception) -> HttpResponse:
    if isinstance(error, RequestDataTooBig):
        return too_large(request)
    if isinstance(error, TooManyFieldsSent):
        most = f"{settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,}"
        return problem(request, 400, "bad_request", f"The query or the form has more than {most} values: send fewer.")
    reason = "is malformed" if isinstance(error, SuspiciousOperation) else "can't be read"
    return problem(request, 400, "bad_request", f"The request {reason}.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer an unhandled exception, which Django has logged. Called in its `except`: `sys.exc_info` has the cause."""
    error = sys.exc_info()[1]
    if message := disk_full_message(error):
        return disk_problem(request, message)
    if error is not None and is_busy(error):
        return busy_problem(request, error)
    if isinstance(error, OperationalError | InterfaceError):
        return database_problem(request)
    name = request_id(request)
    log.error("request %s failed", name)
    return problem(request, 500, "internal", f"Internal error. The server's log has details of request {name}.")
