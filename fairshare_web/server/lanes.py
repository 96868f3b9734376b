"""Threads by purpose, so that slow work occupies its own: look-ups, the state of the service, everything else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

from apps.web.middleware.early_answers import is_early
from fairshare_web.server.environ import Environ, UnreadBody

HEALTH_PATHS = ("/readyz", "/metrics")
LARGE_BYTES = 256 * 1024
PACKED_BYTES = 16 * 1024  # of a body with something packed in it, which may hold 200 times as much
_PACKED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")  # gzip, zstd


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
    """Whether a body that has been read is long, or may be when it is unpacked."""
    body, n_bytes = environ["wsgi.input"], int(environ.get("CONTENT_LENGTH") or 0)
    if isinstance(body, UnreadBody) or n_bytes <= PACKED_BYTES:
        return False
    return n_bytes > LARGE_BYTES or (isinstance(body, BytesIO) and any(mark in body.getvalue() for mark in _PACKED))
