"""JSON output through orjson; and responses with ETags and compression for signed documents."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np
import orjson
import zstandard
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.renderers import BaseRenderer

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
_GZIP_LEVEL = 3  # half of a document is uids, which no level makes smaller
_WITHOUT_NUMBERS = frozenset((str, int, bool, datetime, type(None)))  # types of most values, which are never infinite
_SHORT_BYTES = 1024**2  # of a body that is made as a whole
_ENCODINGS = ("zstd", "gzip")  # the preferred one first


def dumps(data: Any) -> bytes:
    """Encode as JSON. Infinity becomes the text "Infinity" and NaN null, because JSON has no numbers for them."""
    return orjson.dumps(_with_finite_numbers(data), default=_fallback, option=_OPTIONS)


def _with_finite_numbers(value: Any) -> Any:
    """The value with infinite numbers replaced. Without any, the same object, so that usual answers are not copied."""
    kind = type(value)
    if kind in _WITHOUT_NUMBERS:
        return value
    if kind is float:
        return value if isfinite(value) else _infinity_name(value)
    if kind is dict:
        changed = None
        for key, old in value.items():
            if type(old) not in _WITHOUT_NUMBERS and (new := _with_finite_numbers(old)) is not old:
                changed = {**value} if changed is None else changed
                changed[key] = new
        return value if changed is None else changed
    if kind is list or kind is tuple:
        made = None
        for place, old in enumerate(value):
            if type(old) not in _WITHOUT_NUMBERS and (new := _with_finite_numbers(old)) is not old:
                made = [*value] if made is None else made
                made[place] = new
        return value if made is None else made
    if isinstance(value, np.ndarray | np.floating):
        return value if value.dtype.kind != "f" or np.isfinite(value).all() else _with_finite_numbers(value.tolist())
    if isinstance(value, Mapping):
        return _with_finite_numbers(dict(value))
    if isinstance(value, list | tuple):
        return _with_finite_numbers(list(value))
    return _infinity_name(float(value)) if isinstance(value, float) and not isfinite(value) else value


def _infinity_name(value: float) -> str | None:
    return None if value != value else "Infinity" if value > 0 else "-Infinity"


def _fallback(value: Any) -> Any:
    """Encode types that orjson does not know: sets as sorted lists, others (such as lazy translations) as text."""
    if isinstance(value, set | frozenset):
        return _with_finite_numbers(sorted(value))
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


def flowing_response(pieces: Iterator[bytes], *, content_type: str) -> HttpResponseBase:
    """A short body with its length. A long one flows piece by piece, and is never in memory as a whole."""
    head: list[bytes] = []
    n_bytes = 0
    for piece in pieces:
        head.append(piece)
        n_bytes += len(piece)
        if n_bytes > _SHORT_BYTES:
            return StreamingHttpResponse(chain(head, pieces), content_type=content_type)
    return HttpResponse(b"".join(head), content_type=content_type)


def is_known(request: HttpRequest, tag: str) -> bool:
    """Whether If-None-Match names the tag. Weak and strong tags are equal."""
    return bool({tag, "*"} & known_tags(request))


def known_tags(request: HttpRequest) -> set[str]:
    """Tags in If-None-Match, without quotes."""
    header = str(request.META.get("HTTP_IF_NONE_MATCH", ""))
    return {each.strip().removeprefix("W/").strip('"') for each in header.split(",") if each.strip()}


def not_modified(tag: str) -> HttpResponse:
    return tagged(HttpResponse(status=304), tag)


def packed_response(
    request: HttpRequest, data: Callable[[], bytes], *, content_type: str, tag: str, zstd: bytes | None = None
) -> HttpResponse:
    """The data in an encoding that the caller accepts.

    data: returns the plain bytes, called only if needed. zstd: the same bytes, already compressed.
    """
    # The encoding with the highest quality in Accept-Encoding; "" for none.
    qualities: dict[str, float] = {}
    for part in str(request.META.get("HTTP_ACCEPT_ENCODING", "")).split(","):
        name, _, parameters = part.partition(";")
        qualities[name.strip().lower()] = _quality(parameters)
    chosen = max(_ENCODINGS, key=lambda name: qualities.get(name, 0.0))  # the first of equal ones
    wanted = chosen if qualities.get(chosen, 0.0) > 0 else ""
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
    """Set a weak ETag, because it is the same for all encodings."""
    response["ETag"] = f'W/"{tag}"'
    response["Vary"] = "Accept-Encoding"
    return response


def _quality(parameters: str) -> float:
    text = parameters.strip().replace(" ", "")
    if not text.startswith("q="):
        return 1.0
    try:
        return float(text[2:])
    except ValueError:
        return 0.0
