"""DRF serializers of answers, generated from the frozen dataclasses and named tuples that selectors return.

The field's type gives the serializer field; a text in `Annotated` becomes its description in OpenAPI. Requests keep
hand-written serializers, because limits of input belong to the interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.priorities.sentences import Message
from apps.web.rest.deprecations import old_names
from apps.web.rest.shapes import SentenceSerializer, UtcTimeField

AnySerializer = serializers.Serializer[Any]
AnyField = serializers.Field[Any, Any, Any, Any]
_FIELDS: dict[Any, type[AnyField]] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    date: serializers.DateField,
    datetime: UtcTimeField,
    UUID: serializers.UUIDField,
}
_NO_NAMES: Mapping[str, str] = {}
S = TypeVar("S", bound=type[Any])


def record_serializer(
    record: type,
    *,
    component: str = "",
    doc: str = "",
    only: str | Sequence[str] = (),
    exclude: Sequence[str] = (),
    renamed: Mapping[str, str] = _NO_NAMES,
    texts: Mapping[str, str] = _NO_NAMES,
    **declared: AnyField,
) -> type[AnySerializer]:
    """A serializer class with one field for each field of the record, in the same order.

    Args:
        component: name of the OpenAPI component; by default that of the record.
        doc: description of the component.
        only: names of the answer's fields in order, in place of all fields of the record; a text has spaces between
            them. A name may be a property.
        exclude: fields of the record that are not sent.
        renamed: names of the answer to attributes of the record, which may be properties or dotted paths. A path
            through None leads to null.
        texts: descriptions by name, in place of those in `Annotated`.
        declared: fields that differ from the type; those that the record lacks come last.
    """
    answer_names = {attribute: each for each, attribute in renamed.items()}
    names = (only.split() if isinstance(only, str) else list(only)) or [
        answer_names.get(each, each) for each in _names(record) if each not in exclude
    ]
    members = {
        each: declared.get(each) or _generated(record, each, renamed.get(each, each), texts)
        for each in [*names, *(extra for extra in declared if extra not in names)]
    }
    return serializer_class(component or record.__name__, members, doc=doc)


def serializer_class(component: str, members: Mapping[str, AnyField], *, doc: str = "") -> type[AnySerializer]:
    """A serializer class with these fields in this order. component: its name in OpenAPI; doc: its description."""
    for place, member in enumerate(members.values()):
        vars(member)["_creation_counter"] = place  # order of the fields in the answer
    return keeps_old_names(
        type(f"{component}Serializer", (serializers.Serializer,), {"__doc__": doc or None, **members})
    )


def keeps_old_names(serializer: S) -> S:
    """The class, with the fields that the table of renamed fields has for its component under their old names, too.

    In a request either name is taken; of both the old one holds.

    Raises:
        KeyError: the table names a field that the class lacks.
    """
    declared: dict[str, AnyField] = vars(serializer)["_declared_fields"]
    names = old_names(serializer.__name__.removesuffix("Serializer"))
    for old, name in names.items():
        field = declared[name]
        arguments: dict[str, Any] = {
            key: deepcopy(value) if isinstance(value, serializers.Field) else value  # a child has one parent
            for key, value in vars(field)["_kwargs"].items()
        }
        more = {"help_text": f"Deprecated: use `{name}`.", "source": arguments.get("source", name)}
        if more["source"] == old:
            del more["source"]
            arguments = {key: value for key, value in arguments.items() if key != "source"}
        if "default" in arguments:  # of a request, in which a name that isn't sent says nothing
            arguments = {key: value for key, value in arguments.items() if key != "default"}
            more["required"] = False
        declared[old] = type(field)(*vars(field)["_args"], **{**arguments, **more})
    return extend_schema_serializer(deprecate_fields=[*names])(serializer) if names else serializer


@cache
def serializer_of(record: type) -> type[AnySerializer]:
    """The serializer of all fields of a record; always the same class, so that OpenAPI has one component for it."""
    return SentenceSerializer if record is Message else record_serializer(record)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields"))


def _names(record: Any) -> Sequence[str]:
    return [each.name for each in fields(record)] if is_dataclass(record) else record._fields


def _generated(record: type, name: str, attribute: str, texts: Mapping[str, str]) -> AnyField:
    more: dict[str, Any] = {} if attribute == name else {"source": attribute}
    if name in texts:
        more["help_text"] = texts[name]
    return field_of(_hint(record, attribute), **more)


def _hint(record: type, path: str) -> Any:
    """Type of an attribute: a field, a property with a return annotation, or a dotted path of them.

    A path through an attribute that may be None leads to None, too.
    """
    name, _, rest = path.partition(".")
    hint: Any = get_type_hints(record, include_extras=True).get(name)
    if hint is None:
        attribute = getattr(record, name)
        getter = attribute.func if isinstance(attribute, cached_property) else attribute.fget
        hint = get_type_hints(getter, include_extras=True)["return"]
    if not rest:
        return hint
    step = _without_none(hint)
    return _hint(step, rest) if step is hint else _hint(step, rest) | None


def _without_none(hint: Any) -> Any:
    """The type itself, or of an optional one its only other type."""
    if get_origin(hint) not in (Union, UnionType) or NoneType not in get_args(hint):
        return hint
    (inner,) = (each for each in get_args(hint) if each is not NoneType)
    return inner


def field_of(hint: Any, **more: Any) -> AnyField:
    """The field for values of a type. more: arguments of the field."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return serializers.JSONField(allow_null=True, **more)
    if origin is Annotated:
        return field_of(args[0], **{"help_text": args[1], **more})
    if (inner := _without_none(hint)) is not hint:
        return field_of(inner, **{**more, "allow_null": True})
    if origin is Literal:
        return serializers.ChoiceField(args, **more)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if _is_record(args[0]):
            return serializer_of(args[0])(many=True, **more)
        return serializers.ListField(child=field_of(args[0]), **more)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        more = more if args[1] is Any else {"child": field_of(args[1]), **more}
        return serializers.DictField(**more)
    kinds = args if origin in (Union, UnionType) else (hint,)
    if all(isinstance(kind, type) and issubclass(kind, Enum) for kind in kinds):
        return serializers.ChoiceField([each.value for kind in kinds for each in kind], **more)
    return _FIELDS[hint](**more) if hint in _FIELDS else serializer_of(hint)(**more)
