"""`fairshare` for terminals: a file to fetch."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.dashboard.terminal.client import client_file


@login_not_required  # login nodes have no browser; it holds nothing but the address it was fetched from
@require_safe
def download(request: HttpRequest) -> HttpResponse:
    """For everybody. Its checksum is on the page of tokens, which only who has signed in reads."""
    content, digest = client_file(request.build_absolute_uri("/").rstrip("/"))
    tag = f'"{digest[:32]}"'
    known = {each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")}
    response = HttpResponse(status=304) if tag in known else HttpResponse(content, content_type="text/x-python")
    if response.status_code == 200:
        response["Content-Disposition"] = 'attachment; filename="fairshare"'
    response["ETag"] = tag
    response["Cache-Control"] = "public, no-cache"
    response["X-Content-Type-Options"] = "nosniff"
    return response
