"""The WSGI environment of an ASGI request, which Django's WSGI request and all middleware read."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

Scope = Mapping[str, Any]
Environ = dict[str, Any]
SENDS_FILES = "fairshare.sends_files"  # the server sends a file of which it gets the path
_PLAIN = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


def environ_of(scope: Scope) -> Environ:
    """Without a body. Header names with an underscore are dropped: they would be read as those with a hyphen."""
    client, server = scope.get("client") or ("", 0), scope.get("server") or ("", 80)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": path_of(scope),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "REMOTE_ADDR": str(client[0]),
        "REMOTE_PORT": str(client[1]),
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        if b"_" in name:
            continue
        key = _PLAIN.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        if key in environ:
            text = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{text}"
        environ[key] = text
    return environ


def path_of(scope: Scope) -> str:
    """The path as WSGI has it: its bytes, unquoted once, as latin-1."""
    raw = scope.get("raw_path")
    if raw is None:
        return str(scope["path"].encode().decode("latin-1"))
    path: bytes = raw.partition(b"?")[0]
    return (unquote_to_bytes(path) if b"%" in path else path).decode("latin-1")


class BodyWanted(BaseException):
    """A view needs the body that has not been read yet: no `except Exception` may handle it as an error."""


class UnreadBody(io.RawIOBase):
    """Replaces a body until a view has checked everything else of the request and reads it."""

    def read(self, size: int = -1, /) -> bytes:
        raise BodyWanted

    def readline(self, size: int | None = -1, /) -> bytes:
        raise BodyWanted

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """At its beginning: nothing was read."""
        return 0
