"""If-Match: a change names the version that it was made for."""

from __future__ import annotations

import re

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from apps.core.errors import FieldProblem
from apps.web.rest.errors import Refusal

_TAG = re.compile(r'(?:W/)?"([^"]{1,80})"')
_VERSION = re.compile(r"[0-9]{1,9}")
NO_VERSION = -1  # equals no stored version


def if_match_header(what: str, *, is_required: bool = True) -> OpenApiParameter:
    """OpenAPI description of If-Match. what: the object with its article, such as "the grant"."""
    text = f"ETag of {what} as you have read it; 412 if it has changed since."
    if not is_required:
        text += " Optional: without it, the change applies to the current version."
    return OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description=text, required=is_required)


def read_if_match(request: Request) -> str | None:
    """The tag in If-Match without quotes; "" for a malformed one, which equals no tag; None without the header."""
    text = request.headers.get("If-Match", "").strip()
    if not text:
        return None
    match = _TAG.fullmatch(text)
    return match[1] if match else ""


def require_if_match(request: Request, what: str) -> str:
    """As `read_if_match`. what: the object that the tag is of, for the message.

    Raises:
        Refusal: 428 without the header.
    """
    tag = read_if_match(request)
    if tag is None:
        message = f"Send If-Match with the ETag of the {what} that you have read."
        problem = FieldProblem("If-Match", "is missing")
        raise Refusal(message, code="precondition_required", status=428, fields=[problem])
    return tag


def read_version(request: Request) -> int | None:
    """The version in If-Match, `NO_VERSION` for a malformed one; None without the header."""
    tag = read_if_match(request)
    return None if tag is None else _version_of(tag)


def require_version(request: Request, what: str) -> int:
    """The version in If-Match, `NO_VERSION` for a malformed one; 428 without the header."""
    return _version_of(require_if_match(request, what))


def _version_of(tag: str) -> int:
    return int(tag) if _VERSION.fullmatch(tag) else NO_VERSION
