"""The REST reference: pages of the OpenAPI document, which search and describe its operations."""

from __future__ import annotations

from typing import Any

import orjson
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.errors import DomainError
from apps.web.rest import errors
from apps.web.rest.inputs import refuse_unknown
from apps.web.rest.reference import Document, OperationDetail, describe_operation, list_parts
from apps.web.rest.schema import read_schema

_WORDS = "q"  # query parameter


@login_not_required  # as the document: it contains nothing about this site
@require_safe
def operations(request: HttpRequest) -> HttpResponse:
    """All operations by tag, or with `?q=` those that have these words."""
    words = request.GET.get(_WORDS, "").strip()[:200]
    try:
        refuse_unknown(request.GET, (_WORDS,))
        document = _document()
    except DomainError as refusal:
        return errors.domain_problem(request, refusal)
    parts = list_parts(document, words)
    context = {
        "about": document["info"]["description"],
        "parts": parts,
        "words": words,
        "n": sum(len(part.operations) for part in parts),
        "crumbs": [{"label": _("REST reference")}],
    }
    return _page(request, "operations", context)


@login_not_required
@require_safe
def operation(request: HttpRequest, name: str) -> HttpResponse:
    """One operation: how it is called, what it takes and answers."""
    try:
        refuse_unknown(request.GET, ())
        detail = describe_operation(_document(), name)
    except DomainError as refusal:
        return errors.domain_problem(request, refusal)
    context = {
        "detail": detail,
        "operation": detail.operation,
        "call": _call(request, detail),
        "crumbs": [{"label": _("REST reference"), "url": reverse("api:docs")}, {"label": name}],
    }
    return _page(request, "operation", context)


def _page(request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
    whole = {"is_without_numbers": True, "content": f"web/rest/_{name}.html", **context}
    return render(request, f"web/rest/{name}.html", whole)


def _document() -> Document:
    document: Document = orjson.loads(read_schema("json"))
    return document


def _call(request: HttpRequest, detail: OperationDetail) -> str:
    """A command of curl; names in braces are to be replaced."""
    stated = detail.operation
    required = [field for field in detail.parameters if field.is_required]
    query = "&".join(f"{field.name}={{{field.name}}}" for field in required if field.place == "query")
    url = request.build_absolute_uri("/").rstrip("/") + stated.path + (f"?{query}" if query else "")
    lines = ["curl -fsS -g" + ("" if stated.method == "get" else f" -X {stated.verb}")]
    if not detail.needs_no_token:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    lines += [f"-H '{field.name}: {{{field.name}}}'" for field in required if field.place == "header"]
    if detail.bodies:
        lines.append(f"-H 'Content-Type: {detail.bodies[0].media_types[0]}' --data-binary @body")
    return " \\\n  ".join([*lines, f"'{url}'"])
