"""YAML into plain objects, without recursion: the usual loaders crash the process on 100,000 nested brackets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from apps.core.errors import Invalid

_Parser: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_DEEPEST = 200  # 64 levels of entries are 130 of mappings and lists
_STRING = "tag:yaml.org,2002:str"
_READERS = ("null", "bool", "int", "float")

_resolver: Any = yaml.resolver.Resolver()
_constructor: Any = yaml.constructor.SafeConstructor()


def load_yaml(text: bytes | str) -> Any:
    """One document of mappings, lists, text, numbers, true, false and null; dates stay text.

    References (*name), tags and keys given twice are refused, all with their line.
    """
    stack: list[_Open] = []
    result: Any = None
    n_documents = 0
    for event in yaml.parse(text, Loader=_Parser):
        if isinstance(event, yaml.DocumentStartEvent):
            n_documents += 1
            if n_documents > 1:
                raise _refusal(event, "a second document begins; one is allowed")
        elif isinstance(event, yaml.AliasEvent):
            raise _refusal(event, "references (*name) aren't allowed")
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if event.tag is not None:
                raise _refusal(event, f"the tag {event.tag} isn't allowed")
            if len(stack) >= _DEEPEST:
                raise _refusal(event, "is nested too deeply")
            stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else []))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            result = stack.pop().value
            _put(stack, result, event)
        elif isinstance(event, yaml.ScalarEvent):
            result = _scalar(event)
            _put(stack, result, event)
    return result


def yaml_places(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Where each value of a good text begins: its address (keys and numbers from the outside in) and its line."""
    stack: list[_Place] = []
    for event in yaml.parse(text, Loader=_Parser):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            top = stack[-1] if stack else None
            if top is not None and top.awaits_key and isinstance(event, yaml.ScalarEvent):
                top.key, top.awaits_key = event.value, False
                continue
            address = () if top is None else (*top.address, top.step())
            yield address, line
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                stack.append(_Place(address, is_mapping=isinstance(event, yaml.MappingStartEvent)))


class _Place:
    """A mapping or list whose values are being counted."""

    __slots__ = ("address", "awaits_key", "is_mapping", "key", "n")

    def __init__(self, address: tuple[str | int, ...], *, is_mapping: bool) -> None:
        self.address, self.is_mapping, self.awaits_key = address, is_mapping, is_mapping
        self.key, self.n = "", -1

    def step(self) -> str | int:
        if self.is_mapping:
            self.awaits_key = True
            return self.key
        self.n += 1
        return self.n


class _Open:
    """A mapping or list that isn't finished, with the key that waits for its value."""

    __slots__ = ("has_key", "key", "value")

    def __init__(self, value: dict[Any, Any] | list[Any]) -> None:
        self.value = value
        self.key: Any = None
        self.has_key = False


def _put(stack: list[_Open], value: Any, event: yaml.Event) -> None:
    if not stack:
        return
    top = stack[-1]
    if isinstance(top.value, list):
        top.value.append(value)
    elif top.has_key:
        top.value[top.key] = value
        top.has_key = False
    else:
        if isinstance(value, dict | list):
            raise _refusal(event, "a key must be a word")
        if value in top.value:
            raise _refusal(event, f"the key {value!r:.60} is there twice")
        top.key, top.has_key = value, True


def _scalar(event: yaml.ScalarEvent) -> Any:
    if event.tag not in (None, "!"):
        raise _refusal(event, f"the tag {event.tag} isn't allowed")
    text: str = event.value
    if not event.implicit[0]:
        return text  # quoted
    tag = _resolver.resolve(yaml.ScalarNode, text, event.implicit)
    kind = tag.rpartition(":")[2]
    if tag == _STRING or kind not in _READERS:
        return text
    try:
        return getattr(_constructor, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
    except ValueError:
        raise _refusal(event, f"{text!r:.60} is not a valid number here") from None


def _refusal(event: yaml.Event, message: str) -> Invalid:
    line = event.start_mark.line + 1 if event.start_mark else 1
    return Invalid(f"The document is no YAML that is read here: line {line}: {message}.", code="bad_document")
