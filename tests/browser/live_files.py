"""The live server's handler: static files from memory; a change of the database waits until its requests have ended."""

from __future__ import annotations

import mimetypes
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.http import HttpRequest, HttpResponse, HttpResponseBase

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
AXE_ADDRESS = "/static/axe.min.js"  # as a file of our own: the policy of the page allows no other


_LONGEST_S = 30
_running: set[int] = set()
_changed = threading.Condition()


def wait_until_idle() -> None:
    """Until no request runs: one that outlives its test would continue in the database of the next."""
    with _changed:
        assert _changed.wait_for(lambda: not _running, _LONGEST_S), "A request of this test doesn't end."


class KeptFilesHandler(StaticFilesHandler):
    """Reads each file once a process. Django's own opens it for every request and gives it no age, so that a browser
    asks for some twenty files a page."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> HttpResponseBase:
        number = id(environ)
        with _changed:
            _running.add(number)
        try:
            return super().__call__(environ, start_response)
        finally:
            with _changed:
                _running.discard(number)
                _changed.notify_all()

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        found = _read(AXE) if request.path == AXE_ADDRESS else _find(self.file_path(request.path))
        if found is None:
            return super().get_response(request)
        content, kind = found
        return HttpResponse(content, content_type=kind, headers={"Cache-Control": "public, max-age=86400, immutable"})


@cache
def _find(path: str) -> tuple[bytes, str] | None:
    found = finders.find(path)
    return _read(Path(found)) if found else None


@cache
def _read(path: Path) -> tuple[bytes, str]:
    return path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream"
