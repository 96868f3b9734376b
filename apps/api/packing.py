"""Responses of signed bytes: unchanged, in an encoding that the caller accepts, or 304."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import zstandard
from django.http import HttpRequest, HttpResponse

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
