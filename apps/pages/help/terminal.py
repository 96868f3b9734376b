"""Download of the terminal client `fairshare` with this site's address filled in, and its checksum."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

_BLANK = 'SITE = ""  #'


@lru_cache(maxsize=16)
def client_file(site: str) -> tuple[bytes, str]:
    """The whole file for a site's address, and its SHA-256.

    site: scheme and host as Django has checked them (FAIRSHARE_ALLOWED_HOSTS), without a slash at the end.
    """
    source = Path(settings.BASE_DIR, "terminal", "fairshare.py").read_text(encoding="utf-8")
    if source.count(_BLANK) != 1:
        raise RuntimeError("terminal/fairshare.py must have exactly one line for the site's address.")
    filled = source.replace(_BLANK, f"SITE = {site!r}  #").encode()
    return filled, hashlib.sha256(filled).hexdigest()


def installing(address: str) -> dict[str, str]:
    """Commands that download the client, compare its checksum, and only then make it executable."""
    _, digest = client_file(address.rpartition("/")[0])
    new = '"$HOME/bin/fairshare.new"'
    return {
        "digest": digest,
        "install": f"mkdir -p ~/bin && curl -fsS -o {new} '{address}' \\\n"
        f"  && echo '{digest}  '{new} | sha256sum -c - \\\n"
        f"  && chmod 755 {new} && mv {new} ~/bin/fairshare",
        "keep": "(umask 077; mkdir -p ~/.config/fairshare\n cat > ~/.config/fairshare/token)",
    }


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
