"""Static files of the live server: from memory, and a browser may keep them."""

from __future__ import annotations

import mimetypes
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.http import HttpRequest, HttpResponse, HttpResponseBase

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
AXE_ADDRESS = "/static/axe.min.js"  # as a file of our own: the policy of the page allows no other


class KeptFilesHandler(StaticFilesHandler):
    """Reads each file once a process. Django's own opens it for every request and gives it no age, so that a browser
    asks for some twenty files a page."""

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
