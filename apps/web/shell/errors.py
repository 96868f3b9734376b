"""Turns errors of the domain into a page, or into a fragment for an open page."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError, FieldProblem, Unavailable, status_of
from apps.core.postgresql import is_busy
from apps.engine.errors import PackageFailed
from apps.web.shell.forms_in_place import is_in_place
from apps.web.shell.requests import is_htmx

FORM_EXPIRED = "X-Form-Expired"
RETRY_AFTER_S = "10"
_RETRY_AFTER = {429: "60", 503: RETRY_AFTER_S}  # limits are by the minute


@dataclass(frozen=True, slots=True)
class Refusal:
    """Context of the error templates."""

    status: int
    title: str
    message: str
    code: str
    fields: tuple[FieldProblem, ...] = ()
    sign_in_next: str = ""  # page to return to, where signing in is the remedy


class DomainErrorMiddleware(MiddlewareMixin):
    """Pages only: the API returns problem documents."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, PackageFailed):  # code of a package that pages compute with
            exception = Unavailable(f"{exception.message}.", code=exception.code)
        if not isinstance(exception, DomainError) or request.path.startswith("/api/"):
            return None
        request.refused_because = exception.message  # type: ignore[attr-defined]
        return refuse(request, refusal_of(exception))


def refusal_of(error: DomainError) -> Refusal:
    status = status_of(error)
    return Refusal(status, _title(status), error.message, error.code, error.fields)


def refuse(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    if _accepts_json(request):
        return _problem(refusal)
    template = "errors/_refused.html" if is_htmx(request) or is_in_place(request) else "errors/refused.html"
    crumbs = [{"label": refusal.title}]
    response = render(request, template, {"refusal": refusal, "crumbs": crumbs}, status=refusal.status)
    if refusal.status in _RETRY_AFTER:
        response["Retry-After"] = _RETRY_AFTER[refusal.status]
    return response


def _accepts_json(request: HttpRequest) -> bool:
    """Whether the client is a figure, which shows the error instead of the picture."""
    return request.headers.get("Accept") == "application/json"


def _problem(refusal: Refusal) -> HttpResponse:
    problem = {"title": refusal.title, "detail": refusal.message, "code": refusal.code}
    return JsonResponse(problem, status=refusal.status, content_type="application/problem+json")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Response to a form of an earlier session: of one that has ended, or from before a sign-in in another tab.

    The header lets a script sign in and send the form again.
    """
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        message = _("You signed in again after you opened this page. Reload it and submit again.")
        refusal = Refusal(403, _("The form has expired"), message, "csrf")
    else:
        message = _("Sign in to continue.")
        refusal = Refusal(403, _("You’ve been signed out"), message, "csrf", sign_in_next=_page_before(request))
    response = refuse(request, refusal)
    response[FORM_EXPIRED] = "1"
    response.is_csrf_failure = True  # type: ignore[attr-defined]
    return response


def _page_before(request: HttpRequest) -> str:
    """Path of the page with the form, to return to after the sign-in."""
    before = urlsplit(request.headers.get("Referer", ""))
    path = before.path if before.netloc == request.get_host() else ""
    return (f"{path}?{before.query}" if before.query else path) or reverse("pages:overview")


def session_ended(request: HttpRequest) -> HttpResponse:
    """Response to a fragment request after the session ended; the rest of the page stays."""
    refusal = Refusal(
        401, _("You’ve been signed out"), _("Sign in to continue."), "session_ended", sign_in_next=_page_before(request)
    )
    response = refuse(request, refusal)
    response["HX-Retarget"] = "#problem"
    response["HX-Reswap"] = "innerHTML"
    return response


def _title(status: int) -> str:
    titles = {
        400: _("The request could not be read"),
        403: _("You don’t have permission"),
        404: _("Not found"),
        408: _("That took too long"),
        410: _("It is archived"),
        409: _("Another person changed this first"),
        412: _("Another person changed this first"),
        413: _("That is too large"),
        422: _("That could not be accepted"),
        429: _("Too many requests"),
        503: _("Not available at the moment"),
    }
    return titles.get(status, _("That could not be done"))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    message = _("The address or the form was not what the server expects. Reload the page and try again.")
    if isinstance(exception, TooManyFieldsSent):
        message = _("The address or the form names more than %(n)s choices. Choose fewer.") % {
            "n": f"{settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,}"
        }
    refusal = Refusal(400, _title(400), message, "bad_request")
    return _problem(refusal) if _accepts_json(request) else _plain(request, refusal)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    message = _("Ask a manager of the policy if you need access.")
    return _plain(request, Refusal(403, _title(403), message, "not_allowed"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    message = _("The page doesn’t exist, or you may not see it. Check the address, or start from the overview.")
    return refuse_in_shell(request, Refusal(404, _title(404), message, "not_found"))


def refuse_in_shell(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """Error page with navigation and search for signed-in users."""
    user = getattr(request, "user", None)  # a refusal before the session is read has none
    return refuse(request, refusal) if user is not None and user.is_authenticated else _plain(request, refusal)


def refused_body(request: HttpRequest, status: int, code: str, detail: str) -> HttpResponse:
    """Response of a server that rejects a body before any view. Uses no database."""
    return _plain(request, Refusal(status, _title(status), detail, code))


def server_error(request: HttpRequest) -> HttpResponse:
    """Response to an unexpected exception. Uses no database, which may be the cause; then the status is 503."""
    error = sys.exc_info()[1]
    if message := disk_full_message(error):
        return _plain(request, Refusal(503, _title(503), message, "disk_full"))
    if error is not None and is_busy(error):
        message = _("Others changed the same at this moment. Nothing was saved. Try again.")
        return _plain(request, Refusal(503, _title(503), message, "busy"))
    if isinstance(error, OperationalError | InterfaceError):
        message = _("The database is unavailable. Priorities are still served from memory.")
        return _plain(request, Refusal(503, _title(503), message, "database_down"))
    message = _("Nothing was saved. Try again; if it fails again, tell your site’s support the time of the error.")
    return _plain(request, Refusal(500, _("Something went wrong on our side"), message, "internal"))


def _plain(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    template = "errors/_refused.html" if is_htmx(request) else "errors/plain.html"
    body = render_to_string(template, {"refusal": refusal})
    response = HttpResponse(body, status=refusal.status)
    if refusal.status == 503:
        response["Retry-After"] = RETRY_AFTER_S
    return response
