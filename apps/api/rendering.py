"""JSON out, through orjson: instants in UTC with Z, numpy scalars and arrays as numbers."""

from __future__ import annotations

from typing import Any

import orjson
from rest_framework.renderers import BaseRenderer

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def dumps(data: Any) -> bytes:
    return orjson.dumps(data, default=_plain, option=_OPTIONS)


def _plain(value: Any) -> Any:
    """Tuples of named fields, lazy translations and sets have no JSON of their own."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


class JSONRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        response = (renderer_context or {}).get("response")
        if data is None and response is not None and response.status_code in (204, 304):
            return b""
        return dumps(data)
