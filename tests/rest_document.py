"""The OpenAPI description as this process serves it: generated once, for all tests that only read it."""

from __future__ import annotations

from typing import Any

import orjson

from apps.web.rest.schema import read_schema


def rest_document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(read_schema("json"))
    return document
