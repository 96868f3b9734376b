"""Serializers of answers, made from the frozen dataclasses that selectors return: one spelling of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from rest_framework import serializers

from apps.api.shapes import UtcTimeField

AnySerializer = serializers.Serializer[Any]
_PLAIN: dict[Any, type[serializers.Field[Any, Any, Any, Any]]] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    date: serializers.DateField,
    datetime: UtcTimeField,
    UUID: serializers.UUIDField,
}


def record_serializer(
    record: type,
    *,
    name: str = "",
    doc: str = "",
    exclude: Sequence[str] = (),
    **declared: serializers.Field[Any, Any, Any, Any],
) -> type[AnySerializer]:
    """One field for each of the record's, with the text of `Annotated` as its description.

    name, doc: of the component in OpenAPI; its name is the record's else. declared: fields that differ from their type,
    and properties.
    """
    hints = get_type_hints(record, include_extras=True)
    names = [each.name for each in fields(record) if each.name not in exclude]
    members = {each: declared.get(each) or _field(hints[each]) for each in names} | declared
    for place, member in enumerate(members.values()):
        vars(member)["_creation_counter"] = place  # the order of a serializer's fields
    return type(f"{name or record.__name__}Serializer", (serializers.Serializer,), {"__doc__": doc or None, **members})


@cache
def serializer_of(record: type) -> type[AnySerializer]:
    """The one of a record that is sent as it is: one class, so one component in OpenAPI."""
    return record_serializer(record)


def _field(hint: Any, **more: Any) -> serializers.Field[Any, Any, Any, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _field(args[0], **more, help_text=args[1])
    if origin in (Union, UnionType) and NoneType in args:
        (inner,) = (each for each in args if each is not NoneType)
        return _field(inner, **more, allow_null=True)
    if origin is Literal:
        return serializers.ChoiceField(args, **more)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if isinstance(args[0], type) and is_dataclass(args[0]):
            return serializer_of(args[0])(many=True, **more)
        return serializers.ListField(child=_field(args[0]), **more)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return serializers.DictField(**more) if args[1] is Any else serializers.DictField(child=_field(args[1]), **more)
    kinds = args if origin in (Union, UnionType) else (hint,)
    if all(isinstance(kind, type) and issubclass(kind, Enum) for kind in kinds):
        return serializers.ChoiceField([each.value for kind in kinds for each in kind], **more)
    return _PLAIN[hint](**more) if hint in _PLAIN else serializer_of(hint)(**more)
