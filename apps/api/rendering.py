"""JSON out, through orjson; and signed bytes, unchanged, in an encoding that the caller accepts, or 304."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
import orjson
import zstandard
from django.http import HttpRequest, HttpResponse
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


# --- Signed bytes -----------------------------------------------------------------------------------------------------
_GZIP_LEVEL = 3  # half of a document is uids, which no level makes smaller
_PACKED = ("zstd", "gzip")  # the one we like best first


def is_known(request: HttpRequest, tag: str) -> bool:
    """Whether the caller has just this already; weak and strong tags count alike."""
    return bool({tag, "*"} & known_tags(request))


def known_tags(request: HttpRequest) -> set[str]:
    """What If-None-Match names, without quotes."""
    header = str(request.META.get("HTTP_IF_NONE_MATCH", ""))
    return {each.strip().removeprefix("W/").strip('"') for each in header.split(",") if each.strip()}


def not_modified(tag: str) -> HttpResponse:
    return tagged(HttpResponse(status=304), tag)


def packed_response(
    request: HttpRequest, data: Callable[[], bytes], *, content_type: str, tag: str, zstd: bytes | None = None
) -> HttpResponse:
    """data: the plain bytes, asked for only when they are needed. zstd: the same, where they lie packed already."""
    wanted = _coding(request)
    if wanted == "zstd":
        body = zstd if zstd is not None else zstandard.ZstdCompressor(level=3).compress(data())
    elif wanted == "gzip":
        body = gzip.compress(data(), compresslevel=_GZIP_LEVEL, mtime=0)
    else:
        body = data()
    response = HttpResponse(body, content_type=content_type)
    if wanted:
        response["Content-Encoding"] = wanted
    return tagged(response, tag)


def tagged(response: HttpResponse, tag: str) -> HttpResponse:
    """The tag is weak, because it is the same for every packing."""
    response["ETag"] = f'W/"{tag}"'
    response["Vary"] = "Accept-Encoding"
    return response


def _coding(request: HttpRequest) -> str:
    """The best encoding that the caller accepts; "" for none."""
    taken: dict[str, float] = {}
    for part in str(request.META.get("HTTP_ACCEPT_ENCODING", "")).split(","):
        name, _, parameters = part.partition(";")
        taken[name.strip().lower()] = _quality(parameters)
    chosen = max(_PACKED, key=lambda name: taken.get(name, 0.0))  # of equals the first
    return chosen if taken.get(chosen, 0.0) > 0 else ""


def _quality(parameters: str) -> float:
    text = parameters.strip().replace(" ", "")
    if not text.startswith("q="):
        return 1.0
    try:
        return float(text[2:])
    except ValueError:
        return 0.0
