"""Answers to forms that the frame's script sends: the page stays open, and only the script decides what moves.

A refused form comes back as the page that shows it. What would lead elsewhere is named in a header instead, because a
script can't see where a redirect leads. Without the script's header, and so without scripts, nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

HEADER = "X-In-Place"
LOCATION = "X-Location"
Answer = Callable[[HttpRequest], HttpResponse]


def is_in_place(request: HttpRequest) -> bool:
    """Whether the frame's script sent the form."""
    return request.method == "POST" and HEADER in request.headers


class FormsInPlaceMiddleware:
    """Turns redirects into 204 with the address, and a redirect to the sign-in into 401."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not is_in_place(request) or response.status_code not in (301, 302, 303, 307, 308):
            return response
        address = response["Location"]
        has_ended = urlsplit(address).path == reverse("pages:sign-in") and not request.user.is_authenticated
        answer = HttpResponse(status=401 if has_ended and not _leaves(request) else 204)
        answer.cookies = response.cookies
        answer[LOCATION] = address
        answer["Cache-Control"] = "private, no-store"
        return answer


def _leaves(request: HttpRequest) -> bool:
    """Whether the form itself signs out or belongs to the sign-in, whose pages need no session."""
    return request.path.startswith((reverse("pages:sign-out"), reverse("pages:sign-in")))
