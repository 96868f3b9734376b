"""Bodies of requests: read in the event loop, under a deadline, a least rate and the limit of the route."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
from collections.abc import Awaitable, Callable
from typing import IO, Any

from django.conf import settings

from apps.web.rest.body_limits import Limit
from fairshare_web.server import lanes
from fairshare_web.server.environ import Environ, UnreadBody

Receive = Callable[[], Awaitable[Any]]

GRACE_S = 10.0  # a body of any length has this long, and in addition …
LEAST_RATE = 8 * 1024  # … one second for so many bytes that have arrived
UNSEEN_BYTES = 64 * 1024  # a longer body is read only when a view that knows the sender wants it
IN_MEMORY = 1024**2  # bytes; what is longer lies in a file
LINGER_S = 1.0  # for what still arrives of a refused body


class Refused(Exception):
    """The body is not read to its end; the connection has to close."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after_s: int = 0) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.retry_after_s = status, code, detail, retry_after_s


class Disconnected(Exception):
    """The body ended before it was complete: the client went away, or its chunks are broken."""


def declared_length(environ: Environ) -> int | None:
    """Content-Length in bytes; None for a chunked body of unknown length; 0 without a body."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    text = str(environ.get("CONTENT_LENGTH") or "0")
    return int(text) if text.isdigit() and text.isascii() else 0


def without_body(environ: Environ, n_bytes: int) -> Environ:
    """The request with an unread body of that length."""
    request = {**environ, "CONTENT_LENGTH": str(n_bytes), "wsgi.input": UnreadBody()}
    request.pop("HTTP_TRANSFER_ENCODING", None)
    return request


def too_long(limit: Limit) -> Refused:
    return Refused(413, "too_large", limit.bytes_refusal)


async def drain(receive: Receive) -> None:
    """Read and drop a refused body, up to UNSEEN_BYTES, for LINGER_S at most.

    A connection that closes with unread input is reset, and a proxy then answers 502 in place of the refusal.
    """
    n_bytes = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while n_bytes <= UNSEEN_BYTES:
                message = await receive()
                n_bytes += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class BodyReader:
    """Reads one body; a second `read` continues where the first stopped.

    declared: its Content-Length, after which the server need not say that nothing follows; None for a chunked body.
    """

    def __init__(self, receive: Receive, limit: Limit, declared: int | None = None) -> None:
        self._receive, self._limit, self._declared = receive, limit, declared
        self._begun_s = asyncio.get_running_loop().time()
        self._waiting: list[bytes] = []
        self._n_waiting = 0
        self._file: IO[bytes] | None = None
        self.n_bytes = 0
        self.is_complete = False

    async def read(self, *, until: int | None = None) -> None:
        """Read to the end, or until so many bytes have arrived.

        Raises:
            Refused: 413 over the limit, 408 too slow, 503 no room on disk, 400 shorter than it says.
            Disconnected: the client went away.
        """
        try:
            async with asyncio.timeout_at(self._ends_s()) as deadline:
                while not self.is_complete and (until is None or self.n_bytes <= until):
                    await self._take(await self._receive())
                    if not self.is_complete:
                        deadline.reschedule(self._ends_s())
        except BaseException as error:
            self.discard()
            if isinstance(error, TimeoutError):
                raise Refused(408, "too_slow", "The body arrived too slowly: send it again, or in parts.") from None
            raise

    def _ends_s(self) -> float:
        """When more has to have arrived, by the clock of the event loop."""
        return self._begun_s + GRACE_S + self.n_bytes / LEAST_RATE

    async def _take(self, message: Any) -> None:
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        self.n_bytes += len(piece)
        self.is_complete = not message.get("more_body", False) or self.n_bytes == self._declared
        if self.n_bytes > self._limit.n_bytes:
            raise too_long(self._limit)
        if self.is_complete and self._declared is not None and self.n_bytes < self._declared:
            detail = f"The body ends after {self.n_bytes} of {self._declared} bytes: send it again."
            raise Refused(400, "cut_short", detail)
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
