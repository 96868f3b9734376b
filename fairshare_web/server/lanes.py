"""Threads by purpose, so that slow work occupies its own: look-ups, the state of the service, everything else."""

from __future__ import annotations

import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import zstandard

from apps.web.middleware.early_answers import is_early
from fairshare_web.server.environ import Environ, UnreadBody

HEALTH_PATHS = ("/readyz", "/metrics")
LARGE_BYTES = 256 * 1024
_PACKED = re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd")  # gzip, zstd
_MOST_MARKS = 32  # of packed files in a body; a form has a few, and other bytes look so by chance
_MOST_WINDOW_BYTES = 8 * 1024**2
_HOLDS_MUCH = "fairshare.holds_much"


def _pool(name: str, n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix=name)


# Each thread may hold a database connection.
LOOKUP = _pool("lookup", 4)  # look-ups with a token that need more than what is in memory
HEALTH = _pool("health", 2)  # both paths query the database
REST = _pool("rest", 16)
LARGE = _pool("large", 4)  # requests with large bodies: they wait for processes of their own
DISK = _pool("disk", 2)  # bodies and replies that are too large for memory: no view runs here


def lane_of(environ: Environ) -> ThreadPoolExecutor:
    """The threads that may run this request."""
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    if "HTTP_AUTHORIZATION" in environ and is_early(path, method):
        return LOOKUP
    if _has_large_body(environ):
        return LARGE
    return HEALTH if path in HEALTH_PATHS else REST


def _has_large_body(environ: Environ) -> bool:
    """Whether a body that has been read is long, or is when it is unpacked."""
    is_read = not isinstance(environ["wsgi.input"], UnreadBody)
    return is_read and (int(environ.get("CONTENT_LENGTH") or 0) > LARGE_BYTES or holds_much(environ))


def holds_much(environ: Environ) -> bool:
    """Whether something packed within a short body unpacks to over LARGE_BYTES. It is unpacked no further."""
    body = environ["wsgi.input"]
    if not isinstance(body, BytesIO):
        return False
    if _HOLDS_MUCH not in environ:
        environ[_HOLDS_MUCH] = _holds_much(body.getvalue())
    return bool(environ[_HOLDS_MUCH])


def _holds_much(body: bytes) -> bool:
    whole, left = memoryview(body), LARGE_BYTES
    for n_before, mark in enumerate(_PACKED.finditer(body)):
        packed = whole[mark.start() :]
        left -= _gzip_bytes(packed, left + 1) if mark[0].startswith(b"\x1f") else _zstd_bytes(packed, left + 1)
        if left < 0 or n_before >= _MOST_MARKS:
            return True
    return False


def _gzip_bytes(packed: memoryview, most: int) -> int:
    try:
        return len(zlib.decompressobj(wbits=31).decompress(packed, most))
    except zlib.error:  # no packed file, or a damaged one, which its reader refuses
        return 0


def _zstd_bytes(packed: memoryview, most: int) -> int:
    try:
        with zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES).stream_reader(packed) as unpacked:
            return len(unpacked.read(most))
    except zstandard.ZstdError:
        return 0
