"""The operations of the OpenAPI document as records for pages: what each one takes and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from apps.core.errors import NotFound

Document = Mapping[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
_PLACES = ("path", "query", "header")
_BOUNDS = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "items"),
    ("minimum", "maximum", ""),
)


@dataclass(frozen=True)
class Operation:
    """A method of a path. name: its operationId, unique. text: whole description, paragraphs behind empty lines."""

    name: str
    method: str
    path: str
    tag: str
    text: str
    parameters: str

    @property
    def verb(self) -> str:
        """The method as it is sent: GET, POST, …"""
        return self.method.upper()

    @cached_property
    def summary(self) -> str:
        """The first paragraph in one line."""
        return " ".join(self.text.partition("\n\n")[0].split())

    @cached_property
    def _words(self) -> str:
        return f"{self.method} {self.path} {self.tag} {self.name} {self.text} {self.parameters}".casefold()

    def has(self, words: Sequence[str]) -> bool:
        return all(word in self._words for word in words)


@dataclass(frozen=True, slots=True)
class Part:
    """Operations of one tag, by path and method. text: what the tag is about."""

    tag: str
    text: str
    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body. name: with the names above it, as in `results[].account.user`."""

    name: str
    kind: str
    text: str
    is_required: bool
    values: Sequence[str] = ()
    place: str = ""  # path, query or header, of a parameter


@dataclass(frozen=True, slots=True)
class Content:
    """A body in one of some media types. kind: its type; the fields of an object or of the objects of a list."""

    media_types: Sequence[str]
    kind: str
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    text: str
    contents: Sequence[Content]


@dataclass(frozen=True)
class OperationDetail:
    """problems: answers that are problem documents. needs_no_token: also for callers without a token or session."""

    operation: Operation
    tag_text: str
    parameters: Sequence[Field]
    bodies: Sequence[Content]
    answers: Sequence[Answer]
    problems: Sequence[Answer]
    needs_no_token: bool


def list_parts(document: Document, words: str = "") -> list[Part]:
    """Operations by tag, those that have all the words in their address, texts or parameters."""
    wanted = words.casefold().split()
    chosen = [operation for operation in _operations(document) if operation.has(wanted)]
    parts = []
    for tag in sorted(document["tags"], key=lambda tag: str(tag["name"])):
        of_tag = [operation for operation in chosen if operation.tag == tag["name"]]
        if of_tag:
            of_tag.sort(key=lambda operation: (operation.path, METHODS.index(operation.method)))
            parts.append(Part(tag["name"], tag["description"], of_tag))
    return parts


def describe_operation(document: Document, name: str) -> OperationDetail:
    """Raises NotFound: no operation has this name."""
    operation = next((one for one in _operations(document) if one.name == name), None)
    if operation is None:
        raise NotFound("There is no operation of this name.")
    stated = document["paths"][operation.path][operation.method]
    fields = _Fields(document)
    answers = [
        Answer(status, answer["description"], fields.contents(answer)) for status, answer in stated["responses"].items()
    ]
    return OperationDetail(
        operation=operation,
        tag_text=next((tag["description"] for tag in document["tags"] if tag["name"] == operation.tag), ""),
        parameters=fields.parameters(stated),
        bodies=fields.contents(stated.get("requestBody", {})),
        answers=[answer for answer in answers if answer.status < "400"],
        problems=[answer for answer in answers if answer.status >= "400"],
        needs_no_token={} in stated.get("security", ({},)),
    )


def _operations(document: Document) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, stated in methods.items():
            if method in METHODS:
                parameters = " ".join(each["name"] for each in stated.get("parameters", ()))
                text = stated.get("description", "")
                yield Operation(stated["operationId"], method, path, stated["tags"][0], text, parameters)


@dataclass(frozen=True)
class _Fields:
    """Reads schemas of a document."""

    document: Document

    def contents(self, body: Mapping[str, Any]) -> list[Content]:
        """Bodies, one for the media types of the same schema."""
        types: dict[str, list[str]] = {}
        schemas = {}
        for media_type, content in body.get("content", {}).items():
            key = repr(content.get("schema"))
            types.setdefault(key, []).append(media_type)
            schemas[key] = content.get("schema", {})
        return [
            Content(media_types, self._kind(schemas[key]), list(self._below(schemas[key], "", ())))
            for key, media_types in types.items()
        ]

    def parameters(self, operation: Mapping[str, Any]) -> list[Field]:
        """Those of the path first, then those of the query, then headers; required ones first."""
        fields = [
            self._field(each["name"], {**each, **each["schema"]}, each.get("required", False), place=each["in"])
            for each in operation.get("parameters", ())
        ]
        return sorted(fields, key=lambda field: (_PLACES.index(field.place), not field.is_required))

    def _field(self, name: str, schema: Mapping[str, Any], is_required: bool, *, place: str = "") -> Field:
        whole = self._whole(schema)
        element = self._whole(whole.get("items", {}))
        text = str(schema.get("description") or whole.get("description", "")).partition("* `")[0].strip()
        values = [str(value) for value in whole.get("enum", element.get("enum", ())) if value not in (None, "")]
        return Field(name, self._kind(schema), text, is_required, values, place)

    def _whole(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema with what it refers to and what it is made of."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return {**self._whole(self.document["components"]["schemas"][name]), "name": name}
        together = dict(schema)
        for other in (*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
            part = self._whole(other)
            enum = [*together.get("enum", ()), *part.get("enum", ())]
            together = {**part, **together, **({"enum": enum} if enum else {})}
        return together

    def _below(self, schema: Mapping[str, Any], prefix: str, above: tuple[str, ...]) -> Iterator[Field]:
        """Fields of an object, of the objects of a list, or of the values of a map; a tree's are listed once."""
        whole = self._whole(schema)
        name = whole.get("name", "")
        if name and name in above:
            return
        above = (*above, name) if name else above
        if "items" in whole:
            yield from self._below(whole["items"], f"{prefix}[]", above)
        elif isinstance(whole.get("additionalProperties"), dict):
            yield from self._below(whole["additionalProperties"], f"{prefix}{{}}", above)
        for key, child in whole.get("properties", {}).items():
            full = f"{prefix}.{key}" if prefix else key
            yield self._field(full, child, key in whole.get("required", ()))
            yield from self._below(child, full, above)

    def _kind(self, schema: Mapping[str, Any]) -> str:
        """The type, its format and bounds, as in `string, 1 to 64 characters`."""
        whole = self._whole(schema)
        kind = str(whole.get("type", "object" if "properties" in whole else "any"))
        if "items" in whole:
            kind = f"list of {self._kind(whole['items'])}"
        parts = [kind + (f" ({whole['format']})" if whole.get("format") not in (None, "double", "int64") else "")]
        parts += [_bounds(whole, *names) for names in _BOUNDS]
        parts += ["or null"] if whole.get("nullable") or None in whole.get("enum", ()) else []
        default = whole.get("default")
        parts += [f"default {str(default).lower() if isinstance(default, bool) else default}"] if default else []
        return ", ".join(part for part in parts if part)


def _bounds(schema: Mapping[str, Any], low: str, high: str, unit: str) -> str:
    least, most = schema.get(low), schema.get(high)
    if most is None:
        return f"at least {least:,} {unit}".rstrip() if least and (unit != "characters" or least > 1) else ""
    text = f"at most {most:,}" if least is None else f"{least:,} to {most:,}"
    return f"{text} {unit}".rstrip()
