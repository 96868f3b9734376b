"""What OpenAPI can't read from the code: problem documents, and where a bearer token goes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.api.authentication.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "fsh_<id>_<secret>"}


_PROBLEM = {
    "type": "object",
    "description": "RFC 9457. `code` is stable; the sentences may change.",
    "required": ["type", "title", "status", "code", "detail", "fields", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "message"],
                "properties": {"where": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "request_id": {"type": "string"},
        "conflicts": {
            "type": "array",
            "description": "With 409: what was changed by both sides.",
            "items": {
                "type": "object",
                "required": ["entry", "field", "base", "mine", "theirs"],
                "properties": {
                    "entry": {"type": "string", "nullable": True, "description": "uid; null for settings"},
                    "path": {"type": "string"},
                    "field": {"type": "string"},
                    "base": {},
                    "mine": {},
                    "theirs": {},
                },
            },
        },
    },
}
_ANYWHERE = {
    "400": "It can't be read: no JSON, or a name, type or bound is wrong; `fields` name the places",
    "401": "No token or session, or one that doesn't hold",
    "403": "You may see this, but not do that",
    "404": "It doesn't exist, or you may not see it",
    "405": "Not this method",
    "406": "Not in this media type",
    "413": "Over a limit",
    "415": "Another media type or encoding is wanted",
    "422": "It was read, and what it says is refused: nothing was stored; `fields` say what is possible",
    "429": "Too often; see Retry-After",
    "503": "Not now: no snapshot yet, or no database; see Retry-After",
}
_WITH_BODY = {
    "409": "It changed meanwhile, or the state doesn't allow it",
    "412": "If-Match is of an older version",
    "428": "If-Match is missing",
}
_METHODS = {"get", "put", "post", "patch", "delete"}


def add_problems(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Every operation may answer with a problem document."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for method, operation in path.items():
            if method not in _METHODS:
                continue
            texts = _ANYWHERE if method == "get" else {**_ANYWHERE, **_WITH_BODY}
            for status, text in texts.items():
                operation["responses"].setdefault(status, {"description": text, "content": content})
    return result
