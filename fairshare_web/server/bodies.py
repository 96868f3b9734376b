"""Bodies of requests: read in the event loop, under a deadline, a least rate and the limit of the route."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Awaitable, Callable
from typing import IO, Any

from django.conf import settings

from fairshare_web.server import lanes
from fairshare_web.server.environ import Environ

Receive = Callable[[], Awaitable[Any]]

GRACE_S = 10.0  # a body of any length has this long, and in addition …
LEAST_RATE = 8 * 1024  # … one second for so many bytes that have arrived
UNSEEN_BYTES = 64 * 1024  # a longer body is read only when a view that knows the sender wants it
IN_MEMORY = 1024**2  # bytes; what is longer lies in a file


class Refused(Exception):
    """The body is not read to its end; the connection has to close."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


class Disconnected(Exception):
    """The client went away before its body was complete."""


class BodyWanted(BaseException):
    """A view wants the body that has not been read yet: no `except Exception` may take it for an error."""


class UnreadBody(io.RawIOBase):
    """Stands for a body until a view has seen everything else of the request and asks for it."""

    def read(self, size: int = -1, /) -> bytes:
        raise BodyWanted

    def readline(self, size: int | None = -1, /) -> bytes:
        raise BodyWanted


def declared_length(environ: Environ) -> int | None:
    """Content-Length in bytes; None for a chunked body, whose length nobody knows yet; 0 without a body."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    text = str(environ.get("CONTENT_LENGTH") or "0")
    return int(text) if text.isdigit() and text.isascii() else 0


def without_body(environ: Environ, n_bytes: int) -> Environ:
    """The same request with a body of that length that nobody has read."""
    found = {**environ, "CONTENT_LENGTH": str(n_bytes), "wsgi.input": UnreadBody()}
    found.pop("HTTP_TRANSFER_ENCODING", None)
    return found


def too_long(limit: int) -> Refused:
    size = f"{limit // 1024**2} MB" if limit >= 1024**2 else f"{limit // 1024} kB"
    return Refused(413, "too_large", f"The body is over the limit of {size} for this address.")


class BodyReader:
    """Reads one body; `more` continues where an earlier call stopped."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit = receive, limit
        self._begun_s = asyncio.get_running_loop().time()
        self._waiting: list[bytes] = []
        self._n_waiting = 0
        self._file: IO[bytes] | None = None
        self.n_bytes = 0
        self.is_complete = False

    async def read(self, *, until: int | None = None) -> None:
        """Read to the end, or until so many bytes have arrived.

        Raises:
            Refused: 413 over the limit, 408 too slow, 503 no room on disk.
            Disconnected: the client went away.
        """
        try:
            async with asyncio.timeout_at(self._deadline_s()) as deadline:
                while not self.is_complete and (until is None or self.n_bytes <= until):
                    await self._take(await self._receive())
                    if not self.is_complete:
                        deadline.reschedule(self._deadline_s())
        except TimeoutError:
            self.discard()
            raise Refused(408, "too_slow", "The body arrived too slowly: send it again, or in parts.") from None
        except BaseException:
            self.discard()
            raise

    def _deadline_s(self) -> float:
        return self._begun_s + GRACE_S + self.n_bytes / LEAST_RATE

    async def _take(self, message: Any) -> None:
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        self.is_complete = not message.get("more_body", False)
        self.n_bytes += len(piece)
        if self.n_bytes > self._limit:
            raise too_long(self._limit)
        if piece:
            self._waiting.append(piece)
            self._n_waiting += len(piece)
            if self._n_waiting > IN_MEMORY:
                await self._to_disk()

    async def _to_disk(self) -> None:
        """In a thread: a disk that hangs must not hold up the event loop."""
        pieces, self._waiting, self._n_waiting = self._waiting, [], 0
        try:
            await asyncio.get_running_loop().run_in_executor(lanes.DISK, self._write, pieces)
        except OSError as error:
            detail = f"The body can't be stored: {error.strerror}. Try again later."
            raise Refused(503, "no_room", detail) from error

    def _write(self, pieces: list[bytes]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)  # noqa: SIM115 - outlives this call
        self._file.writelines(pieces)

    async def finished(self) -> IO[bytes]:
        """The whole body from its beginning; the caller closes it."""
        if self._file is None:
            return io.BytesIO(b"".join(self._waiting))
        if self._waiting:
            await self._to_disk()
        self._file.seek(0)
        return self._file

    def discard(self) -> None:
        self._waiting.clear()
        if self._file is not None:
            self._file.close()
