"""The description of the API (OpenAPI). Anybody may ask for it and it takes seconds to write, so it is kept."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import get_language
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request
from rest_framework.response import Response

_Kept = tuple[bytes, dict[str, str]]
_kept: dict[tuple[str, str | None], _Kept] = {}  # by format and language: it depends on nothing else


class DescriptionView(SpectacularAPIView):
    """Written once a process for each format and language."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response | HttpResponse:
        language = request.GET.get("lang") or get_language()
        if set(request.GET) - {"lang"} or language not in dict(settings.LANGUAGES):
            return self._written(request)
        key = (str(request.accepted_renderer.media_type), language)
        if key in _kept:
            content, headers = _kept[key]
            return HttpResponse(content, headers=headers)
        response = self._written(request)
        response.add_post_render_callback(lambda written: _keep(key, written))
        return response

    def _written(self, request: Request) -> Response:
        response: Response = super().get(request)  # type: ignore[no-untyped-call]
        return response


def _keep(key: tuple[str, str | None], written: Any) -> None:
    headers = {name: written[name] for name in ("Content-Type", "Content-Disposition")}
    _kept[key] = (written.content, headers)
