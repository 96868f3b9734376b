"""The OpenAPI description: made once a release, at the start of the stack, and sent from memory.

Making it takes seconds of CPU and anybody may ask for it, so a process makes it in one thread at most.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from apps.api.packing import is_known
from apps.errors import Unavailable
from apps.release import schema_file

_RENDERERS: dict[str, Any] = {"yaml": OpenApiYamlRenderer, "json": OpenApiJsonRenderer}


@dataclass(frozen=True, slots=True)
class Description:
    content: bytes
    tag: str


_made: dict[str, Description] = {}
_making = threading.Lock()


class SchemaView(SpectacularAPIView):
    """The same for everybody. Parameters change nothing."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        media_type = str(request.accepted_renderer.media_type)
        suffix = "json" if "json" in media_type else "yaml"
        found = _made.get(suffix) or _load(suffix)
        if is_known(request._request, found.tag):
            response = HttpResponse(status=304)
        else:
            response = HttpResponse(found.content, content_type=media_type)
            response["Content-Disposition"] = f'inline; filename="Fairshare.{suffix}"'
        response["ETag"] = f'"{found.tag}"'
        response["Cache-Control"] = "public, no-cache"
        return response


def _load(suffix: str) -> Description:
    """From the file that the start of the stack left; else made here, by one request while the others are refused."""
    if not _making.acquire(blocking=False):
        raise Unavailable("The description is being made: ask again in a moment.", code="being_made")
    try:
        path = schema_file(suffix)
        content = path.read_bytes() if path.exists() else make_schema(suffix)
        tag = hashlib.sha256(content).hexdigest()[:32]
        return _made.setdefault(suffix, Description(content, tag))
    finally:
        _making.release()


def make_schema(suffix: str) -> bytes:
    """suffix: yaml or json. Not thread-safe: generators share state of serializers."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    content: bytes = _RENDERERS[suffix]().render(schema, renderer_context={})
    return content
