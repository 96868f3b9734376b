"""Refuses text that PostgreSQL can't store before anything looks it up or writes it down: a NUL, an unpaired surrogate.

Here once for all faces, so that neither a query nor the audit row of a refusal meets it. Bodies of REST are read by
`apps.web.rest.parsing`, which refuses the same characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Malformed
from apps.web.rest import errors as api
from apps.web.shell import errors as pages
from fairshare_web.errors import is_api, not_found

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class StorableTextMiddleware:
    """404 for such a path, as no object has it; 400 for such a parameter of REST, or field of a form."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if _UNSTORABLE.search(request.path):
            return not_found(request, Http404())
        if is_api(request) and (name := _unstorable_field(request.GET)) is not None:
            return _refuse(request, name)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, *_arguments: Any) -> HttpResponse | None:
        # The CSRF check has parsed the form.
        is_form = request.method == "POST" and not is_api(request) and not getattr(view, "csrf_exempt", False)
        name = _unstorable_field(request.POST) if is_form else None
        return None if name is None else _refuse(request, name)


def _unstorable_field(fields: QueryDict) -> str | None:
    for name, values in fields.lists():
        if _UNSTORABLE.search(name) or any(map(_UNSTORABLE.search, values)):
            return str(_UNSTORABLE.sub("\ufffd", name))
    return None


def _refuse(request: HttpRequest, name: str) -> HttpResponse:
    message = _("has a character that can’t be stored: a NUL, or half of a pair")
    error = Malformed(f"{name[:80]} {message}.", code="invalid", fields=[FieldProblem(name[:80], message)])
    return api.domain_problem(request, error) if is_api(request) else pages.refuse(request, pages.refusal_of(error))
