"""The site's addresses, and some whose views do with a process what bodies might; for `test_large_bodies`."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from fairshare_web import urls
from fairshare_web.urls import handler400, handler403, handler404, handler500  # noqa: F401 - Django looks here

MANY_PIECES = [bytes([n]) * 100_000 for n in range(30)]


def echo(request: HttpRequest) -> HttpResponse:
    answer = JsonResponse(
        {
            "method": request.method,
            "query": request.GET.dict(),
            "agent": request.headers["User-Agent"],
            "address": request.META["REMOTE_ADDR"],
            "sha256": hashlib.sha256(request.read()).hexdigest(),
            "process": f"{os.getpid():010}",  # of one length everywhere
        },
        status=201,
    )
    answer["X-Name"] = "Jörg".encode().decode("latin-1")
    answer.set_cookie("one", 'a "b"; c', max_age=60, httponly=True, samesite="Lax")
    answer.set_cookie("two", "", path="/x/", secure=True)
    answer.delete_cookie("three")
    return answer


def many(_request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter(MANY_PIECES), content_type="text/csv")


def broken(_request: HttpRequest) -> StreamingHttpResponse:
    def pieces() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise ValueError("no more")

    return StreamingHttpResponse(pieces())


def killed(_request: HttpRequest) -> HttpResponse:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def endless(_request: HttpRequest) -> HttpResponse:
    while True:
        pass


def insatiable(_request: HttpRequest) -> HttpResponse:
    pieces: list[bytearray] = []
    while True:
        pieces.append(bytearray(16 * 1024**2))


def large(_request: HttpRequest) -> HttpResponse:
    """Takes memory that it still has when it answers."""
    globals()["_held"] = bytearray(b"x") * 600 * 1024**2
    return JsonResponse({"process": os.getpid()})


_VIEWS = (echo, many, broken, killed, endless, insatiable, large)
urlpatterns = [
    *(path(f"api/v1/tried/{view.__name__}", csrf_exempt(login_not_required(view))) for view in _VIEWS),
    *urls.urlpatterns,
]
