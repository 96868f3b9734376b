"""Parts of a request, read and validated in one way: query, body, instants and entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request

from apps.core import clock
from apps.core.errors import FieldProblem
from apps.mapping.permissions import load_visibility
from apps.policies.selectors import READ, get_policy, read_instant, read_moment
from apps.policies.tree.stored import load_tree
from apps.web.rest.authentication import actor_of
from apps.web.rest.errors import Refusal


def field_refusal(where: str, message: str) -> Refusal:
    """400 about one field of the request. message: a predicate, such as "must be 0 or 1"."""
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


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


def require_seen_tree(request: Request, policy_slug: str) -> None:
    """404 for a caller who sees no entry of the policy, and so can name none in a body."""
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor)
    seen = load_visibility(policy=policy, tree=load_tree(policy), at=clock.now(), actor=actor)
    if not seen.mask.any():
        seen.require(None)


def visible_entry_uid(request: Request, policy_slug: str, text: str, scope: str = READ) -> UUID:
    """The uid of a current entry given by uid or path; 404 if there is none or the caller may not see it.

    scope: required of a token.
    """
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    tree = load_tree(policy)
    try:
        i = tree.index_of_uid(UUID(text))
    except ValueError:
        i = tree.index_of_path(text)
    return tree.uuid(load_visibility(policy=policy, tree=tree, at=clock.now(), actor=actor).require(i))
