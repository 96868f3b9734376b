"""What the description of REST v1 takes and answers where: for tests of names."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

_METHODS = ("get", "put", "post", "patch", "delete")
_PREFIX = "#/components/schemas/"


def components_of_operations(document: Any) -> dict[str, set[str]]:
    """Names of components to the operations, such as `GET /api/v1/policies`, that take or answer them, at any depth."""
    schemas = document["components"]["schemas"]
    places: dict[str, set[str]] = defaultdict(set)
    for path, operations in document["paths"].items():
        for method in _METHODS:
            operation = operations.get(method, {})
            answers = [each for code, each in operation.get("responses", {}).items() if code[0] == "2"]
            for component in _reached([*answers, operation.get("requestBody", {})], schemas):
                places[component].add(f"{method.upper()} {path}")
    return dict(places)


def _reached(part: Any, schemas: Any) -> set[str]:
    names: set[str] = set()
    parts = [part]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            reference = part.get("$ref", "")
            name = reference.removeprefix(_PREFIX) if str(reference).startswith(_PREFIX) else ""
            if name and name not in names:
                names.add(name)
                parts.append(schemas[name])
            parts += part.values()
    return names
