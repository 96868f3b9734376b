"""Download of the terminal client, and the answer that any program to download gets."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.web.links.terminal_client import client_file


@login_not_required  # login nodes have no session; the file contains only the address it is fetched from
@require_safe
def download(request: HttpRequest) -> HttpResponse:
    """The client, for everyone; its checksum is on the page of tokens, which requires a sign-in."""
    content, digest = client_file(request.build_absolute_uri("/").rstrip("/"))
    return program_answer(request, content, digest, name="fairshare", content_type="text/x-python")


def program_answer(request: HttpRequest, content: bytes, digest: str, *, name: str, content_type: str) -> HttpResponse:
    """Response with a program to download; 304 if the client has this version."""
    tag = f'"{digest[:32]}"'
    known = {each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")}
    response = HttpResponse(status=304) if tag in known else HttpResponse(content, content_type=content_type)
    if response.status_code == 200:
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["ETag"] = tag
    response["Cache-Control"] = "public, no-cache"
    response["X-Content-Type-Options"] = "nosniff"
    return response
