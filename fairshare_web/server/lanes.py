"""Threads by purpose, so that slow work occupies its own: look-ups, the state of the service, everything else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from apps.web.early_answers import is_early
from apps.web.lookup import is_lookup
from fairshare_web.server.environ import Environ, UnreadBody

HEALTH_PATHS = ("/readyz", "/metrics")
LARGE_BYTES = 256 * 1024


def _pool(name: str, n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix=name)


# Each thread may hold a database connection.
LOOKUP = _pool("lookup", 4)  # look-ups with a token that need more than what is in memory
HEALTH = _pool("health", 2)  # both paths query the database
REST = _pool("rest", 16)
LARGE = _pool("large", 4)  # requests of REST with large bodies, whose objects take most CPU and memory
DISK = _pool("disk", 2)  # bodies and replies that are too large for memory: no view runs here


def lane_of(environ: Environ) -> ThreadPoolExecutor:
    """The threads that may run this request."""
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    if "HTTP_AUTHORIZATION" in environ and (is_lookup(path, method) or is_early(path, method)):
        return LOOKUP
    if path.startswith("/api/") and _body_bytes(environ) > LARGE_BYTES:
        return LARGE
    return HEALTH if path in HEALTH_PATHS else REST


def _body_bytes(environ: Environ) -> int:
    """Of a body that has been read."""
    return 0 if isinstance(environ["wsgi.input"], UnreadBody) else int(environ.get("CONTENT_LENGTH") or 0)
