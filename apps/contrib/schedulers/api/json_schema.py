"""Parts of a JSON schema, as OpenAPI 3.0 wants them."""

from __future__ import annotations

from typing import Any


def object_schema(required: str = "", /, **properties: Any) -> dict[str, Any]:
    """An object of these fields alone. required: their names; OpenAPI refuses an empty list of them."""
    fields = {"required": required.split()} if required else {}
    return {"type": "object", **fields, "properties": properties, "additionalProperties": False}


def list_schema(items: dict[str, Any], most: int, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most, **more}


def text_schema(most: int) -> dict[str, Any]:
    """most: characters."""
    return {"type": "string", "maxLength": most}
