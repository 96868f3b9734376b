"""Fields for lists and objects whose length the caller chooses: checked item by item, with few errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rest_framework import serializers

from apps.core.errors import FieldProblem
from apps.web.rest.errors import Refusal

MOST_ERRORS = 10  # of one list or object
MOST_OBJECT_NAMES = 1_000  # of an object whose names the caller chooses
Item = TypeVar("Item")


def _validated_items(items: Iterable[tuple[Item, Any]], validate: Callable[[Any], Any]) -> dict[Item, Any]:
    """Validate until MOST_ERRORS items are wrong: each error costs more than a valid item, and all are answered."""
    values: dict[Item, Any] = {}
    errors: dict[Any, Any] = {}
    for key, item in items:
        try:
            values[key] = validate(item)
        except serializers.ValidationError as error:
            errors[key] = error.detail
            if len(errors) == MOST_ERRORS:
                break
    if errors:
        raise serializers.ValidationError(errors)
    return values


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
            _refuse_many(self, len(data), MOST_OBJECT_NAMES)
        return super().to_internal_value(data)

    def run_child_validation(self, data: Any) -> Any:
        return _validated_items(data.items(), self.child.run_validation)
