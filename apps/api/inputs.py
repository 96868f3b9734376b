"""Parts of a request, read and validated in one way: query, body, cursor, If-Match, instants and entries."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import orjson
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request

from apps.api.authentication import actor_of
from apps.api.errors import Refusal
from apps.core import clock
from apps.core.errors import FieldProblem
from apps.mapping.permissions import load_visibility
from apps.policies.selectors import get_policy, read_instant, read_moment
from apps.policies.tree.stored import load_tree


def field_refusal(where: str, message: str) -> Refusal:
    """400 about one field of the request. message: a predicate, such as "must be 0 or 1"."""
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


# --- Query and body ---------------------------------------------------------------------------------------------------
def read_query(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Validate the query string. Unknown names are rejected."""
    lists = [name for name, field in kind().fields.items() if isinstance(field, serializers.ListField)]
    repeated = {name: request.query_params.getlist(name) for name in lists if name in request.query_params}
    return _validated(kind, {**request.query_params.dict(), **repeated})


def read_body(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Validate a JSON object in the body. Unknown names are rejected."""
    data: Any = request.data
    if not isinstance(data, dict):
        message = "must be one JSON object"
        raise Refusal(f"The body {message}.", code="invalid", fields=[FieldProblem("body", message)])
    return _validated(kind, data)


def _validated(kind: type[serializers.Serializer[Any]], data: dict[str, Any]) -> dict[str, Any]:
    serializer = kind(data=data)
    refuse_unknown(data, serializer.fields)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def refuse_unknown(names: Iterable[str], known: Collection[str]) -> None:
    """400 for names that nothing reads: a typing error would be ignored otherwise."""
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"is not known here; known: {', '.join(known) or 'nothing'}"
        fields = [FieldProblem(str(name)[:60], message) for name in unknown[:20]]
        raise Refusal(f"{fields[0].where} {message}.", code="unknown_field", fields=fields)


# --- Lists and objects of any length ----------------------------------------------------------------------------------
MOST_ERRORS = 10  # of one list or object
MOST_NAMES = 1_000  # of an object whose names the caller chooses
Item = TypeVar("Item")


def _validated_items(items: Iterable[tuple[Item, Any]], validate: Callable[[Any], Any]) -> dict[Item, Any]:
    """Validate until MOST_ERRORS items are wrong: each error costs more than a valid item, and all are answered."""
    found: dict[Item, Any] = {}
    errors: dict[Any, Any] = {}
    for key, item in items:
        try:
            found[key] = validate(item)
        except serializers.ValidationError as error:
            errors[key] = error.detail
            if len(errors) == MOST_ERRORS:
                break
    if errors:
        raise serializers.ValidationError(errors)
    return found


def _refuse_many(field: serializers.Field[Any, Any, Any, Any], n_items: int, most: int) -> None:
    if n_items > most:
        where, message = field.field_name or "body", f"has {n_items:,} items; the limit is {most:,}"
        raise Refusal(f"{where} {message}.", code="too_large", status=413, fields=[FieldProblem(where, message)])


class BoundedListField(serializers.ListField):
    """A list in a request. Its length is checked before its items are."""

    max_length: int

    def __init__(self, *, max_length: int, **more: Any) -> None:
        super().__init__(max_length=max_length, **more)

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, list):
            _refuse_many(self, len(data), self.max_length)
        return super().to_internal_value(data)

    def run_child_validation(self, data: Any) -> Any:
        return list(_validated_items(enumerate(data), self.child.run_validation).values())


class BoundedDictField(serializers.DictField):
    """An object in a request, whose names the caller chooses."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            _refuse_many(self, len(data), MOST_NAMES)
        return super().to_internal_value(data)

    def run_child_validation(self, data: Any) -> Any:
        return _validated_items(data.items(), self.child.run_validation)


# --- Cursors ----------------------------------------------------------------------------------------------------------
Position = TypeVar("Position", int, list[Any])


class CursorSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=200, required=False, help_text="`next` of the previous page")


def encode_cursor(position: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position)).rstrip(b"=").decode()


def read_cursor(given: dict[str, Any], kind: type[Position] = int) -> Position | None:  # type: ignore[assignment]
    """Position after which the page starts; None for the first page.

    A cursor encodes a position in the sort order, so that rows inserted or deleted meanwhile shift nothing.
    """
    text = given.get("cursor")
    if not text:
        return None
    try:
        position = orjson.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except (binascii.Error, ValueError):
        position = None
    if isinstance(position, kind) and not isinstance(position, bool):
        return position
    message = "is not a cursor of this list: use its `next`"
    raise Refusal(f"cursor {message}.", code="bad_cursor", fields=[FieldProblem("cursor", message)])


# --- If-Match ---------------------------------------------------------------------------------------------------------
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


# --- Instants ---------------------------------------------------------------------------------------------------------
def moment_of(text: str | None) -> int | datetime | None:
    """A revision (a number of up to nine digits) or an instant; None without a text."""
    try:
        return read_moment(text)
    except ValueError as error:
        raise field_refusal("at", str(error)) from error


class InstantField(serializers.CharField):
    """A time with its UTC offset, as aware UTC; a time without offset is rejected."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return read_instant(super().to_internal_value(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


# --- Entries ----------------------------------------------------------------------------------------------------------
def entry_uid(request: Request, policy_slug: str, text: str) -> UUID:
    """The uid of an entry given by uid or path. A uid is returned unchecked, also of an archived entry.

    Raises:
        NotFound: no entry has the path, or the caller may not see it.
    """
    try:
        return UUID(text)
    except ValueError:
        pass
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    visibility = load_visibility(policy=policy, tree=tree, at=clock.now(), actor=actor)
    return tree.uuid(visibility.require(tree.index_of_path(text)))


def visible_entry_uid(request: Request, policy_slug: str, text: str) -> UUID:
    """The uid of a current entry given by uid or path; 404 if there is none or the caller may not see it."""
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    try:
        i = tree.index_of_uid(UUID(text))
    except ValueError:
        i = tree.index_of_path(text)
    return tree.uuid(load_visibility(policy=policy, tree=tree, at=clock.now(), actor=actor).require(i))
