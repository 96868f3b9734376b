"""JSON out, through orjson: instants in UTC with Z, numpy scalars and arrays as numbers, infinities by name."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
import orjson
from rest_framework.renderers import BaseRenderer

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def dumps(data: Any) -> bytes:
    """Infinity is "Infinity", what isn't a number is null: a bare one is no JSON, and null for both would be a lie."""
    return orjson.dumps(_typed(data), default=_plain, option=_OPTIONS)


def _typed(value: Any) -> Any:
    """The value itself; new only where a number in it isn't finite, so that the usual answer is checked and not copied.

    Unknown types come back through `_plain`.
    """
    kind = type(value)
    if kind is float:
        return value if isfinite(value) else _named(value)
    if kind is dict:
        changed = {key: new for key, old in value.items() if (new := _typed(old)) is not old}
        return {**value, **changed} if changed else value
    if kind is list or kind is tuple:
        made = [_typed(each) for each in value]
        return value if all(map(_is, made, value)) else made
    if isinstance(value, np.ndarray | np.floating):
        return value if value.dtype.kind != "f" or np.isfinite(value).all() else _typed(value.tolist())
    if isinstance(value, Mapping):
        return _typed(dict(value))
    if isinstance(value, list | tuple):
        return _typed(list(value))
    return _named(float(value)) if isinstance(value, float) and not isfinite(value) else value


def _is(new: Any, old: Any) -> bool:
    return new is old


def _named(value: float) -> str | None:
    return None if value != value else "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    """Lazy translations and sets have no JSON of their own."""
    if isinstance(value, set | frozenset):
        return _typed(sorted(value))
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
