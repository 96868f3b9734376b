"""A log line for each request: method, route, status and duration.

The route is the pattern of the address: paths name people and links have secrets in them, queries have both.
"""

from __future__ import annotations

import logging
import time
from functools import lru_cache

from django.core.handlers.wsgi import get_path_info
from django.urls import Resolver404, resolve

from fairshare_web.server.environ import Environ

CLIENT_GONE = 499  # as nginx has it: the client went away before the answer
log = logging.getLogger("fairshare.access")


def log_request(environ: Environ, status: int, began_s: float) -> None:
    """began_s: by `time.perf_counter`."""
    if not log.isEnabledFor(logging.INFO):
        return
    route, duration_ms = route_of(get_path_info(environ)), round((time.perf_counter() - began_s) * 1000, 3)
    details = {"method": environ["REQUEST_METHOD"], "route": route, "status": status, "duration_ms": duration_ms}
    log.info("%(method)s %(route)s %(status)d in %(duration_ms).1f ms", details, extra=details)


@lru_cache(maxsize=4096)
def route_of(path: str) -> str:
    """Without one, `/static/…` and else an empty text: a stranger chooses the path."""
    try:
        return f"/{resolve(path).route}"
    except Resolver404:
        return "/static/<path>" if path.startswith("/static/") else ""
