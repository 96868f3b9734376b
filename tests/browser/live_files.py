"""The live server of browser tests: static files come from memory, with leave to keep them."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.http import Http404, HttpRequest, HttpResponse

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
AXE_ADDRESS = "/static/axe.min.js"  # as a file of our own: the policy of the page allows no other
_KEPT: dict[str, tuple[bytes, str]] = {}


class KeptFilesHandler(StaticFilesHandler):
    """Reads each file once a process. Django's own opens it for every request and gives it no age, so that a browser
    asks for some twenty files a page."""

    def serve(self, request: HttpRequest) -> HttpResponse:
        if request.path not in _KEPT:
            _KEPT[request.path] = self._read(request.path)
        content, kind = _KEPT[request.path]
        return HttpResponse(content, content_type=kind, headers={"Cache-Control": "public, max-age=86400, immutable"})

    def _read(self, path: str) -> tuple[bytes, str]:
        found = str(AXE) if path == AXE_ADDRESS else finders.find(self.file_path(path))
        if not found:
            raise Http404(path)
        return Path(found).read_bytes(), mimetypes.guess_type(path)[0] or "application/octet-stream"
