"""The OpenAPI schema. Generating it takes seconds and anybody may request it, so each process caches it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import get_language
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request
from rest_framework.response import Response

_Cached = tuple[bytes, dict[str, str]]
_cache: dict[tuple[str, str | None], _Cached] = {}  # by media type and language, all that it depends on


class CachedSchemaView(SpectacularAPIView):
    """Generated once per process, media type and language."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response | HttpResponse:
        language = request.GET.get("lang") or get_language()
        if set(request.GET) - {"lang"} or language not in dict(settings.LANGUAGES):
            return self._generate(request)
        key = (str(request.accepted_renderer.media_type), language)
        if key in _cache:
            content, headers = _cache[key]
            return HttpResponse(content, headers=headers)
        response = self._generate(request)
        response.add_post_render_callback(lambda written: _store(key, written))
        return response

    def _generate(self, request: Request) -> Response:
        response: Response = super().get(request)  # type: ignore[no-untyped-call]
        return response


def _store(key: tuple[str, str | None], written: Any) -> None:
    headers = {name: written[name] for name in ("Content-Type", "Content-Disposition")}
    _cache[key] = (written.content, headers)
