"""Bodies of requests: read in the event loop, under a deadline, a least rate and the limit of the route."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import weakref
from collections.abc import Awaitable, Callable
from typing import IO, Any, ClassVar
from weakref import WeakKeyDictionary

from django.conf import settings

from apps.api.body_limits import Limit
from fairshare_web.server import lanes
from fairshare_web.server.environ import Environ, UnreadBody

Receive = Callable[[], Awaitable[Any]]

GRACE_S = 10.0  # a body of any length has this long, and in addition …
LEAST_RATE = 8 * 1024  # … one second for so many bytes that have arrived
UNSEEN_BYTES = 64 * 1024  # a longer body is read only when a view that knows the sender wants it
IN_MEMORY = 1024**2  # bytes; what is longer lies in a file
TICK_S = 0.25  # between two checks for late bodies
LINGER_S = 1.0  # for what still arrives of a refused body


class Refused(Exception):
    """The body is not read to its end; the connection has to close."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


class Disconnected(Exception):
    """The client went away before its body was complete."""


def declared_length(environ: Environ) -> int | None:
    """Content-Length in bytes; None for a chunked body of unknown length; 0 without a body."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    text = str(environ.get("CONTENT_LENGTH") or "0")
    return int(text) if text.isdigit() and text.isascii() else 0


def without_body(environ: Environ, n_bytes: int) -> Environ:
    """The request with an unread body of that length."""
    found = {**environ, "CONTENT_LENGTH": str(n_bytes), "wsgi.input": UnreadBody()}
    found.pop("HTTP_TRANSFER_ENCODING", None)
    return found


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


class _Watch:
    """Cancels late reads of one event loop: with one timer, since one per body takes as long as reading it."""

    _by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)  # else it would keep itself from being forgotten
        self._readers: set[BodyReader] = set()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Watch:
        found = cls._by_loop.get(loop)
        if found is None:
            found = cls._by_loop[loop] = cls(loop)
        return found

    def add(self, reader: BodyReader) -> None:
        self._readers.add(reader)
        if self._timer is None:
            self._wait()

    def remove(self, reader: BodyReader) -> None:
        self._readers.discard(reader)

    def _wait(self) -> None:
        loop = self._loop()
        self._timer = loop.call_later(TICK_S, self._tick, loop) if loop and self._readers else None

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        for reader in self._readers:  # each waits for its client: a task that runs is not cancelled here
            reader.cancel_if_late(loop.time())
        self._wait()


class BodyReader:
    """Reads one body; a second `read` continues where the first stopped.

    declared: its Content-Length, after which the server need not say that nothing follows; None for a chunked body.
    """

    def __init__(self, receive: Receive, limit: Limit, declared: int | None = None) -> None:
        self._receive, self._limit, self._declared = receive, limit, declared
        loop = asyncio.get_running_loop()
        self._watch, self._begun_s = _Watch.of(loop), loop.time()
        self._task: asyncio.Task[Any] | None = None
        self._is_late = False
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
        self._task = asyncio.current_task()
        self._watch.add(self)
        try:
            while not self.is_complete and (until is None or self.n_bytes <= until):
                await self._take(await self._receive())
        except BaseException as error:
            self.discard()
            if isinstance(error, asyncio.CancelledError) and self._is_late and not self._was_cancelled_by_others():
                raise Refused(408, "too_slow", "The body arrived too slowly: send it again, or in parts.") from None
            raise
        finally:
            self._watch.remove(self)

    def cancel_if_late(self, now_s: float) -> None:
        if now_s >= self._begun_s + GRACE_S + self.n_bytes / LEAST_RATE and not self._is_late and self._task:
            self._is_late = True
            self._task.cancel()

    def _was_cancelled_by_others(self) -> bool:
        return self._task is not None and self._task.uncancel() > 0

    async def _take(self, message: Any) -> None:
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        self.n_bytes += len(piece)
        self.is_complete = not message.get("more_body", False) or self.n_bytes == self._declared
        if self.n_bytes > self._limit.n_bytes:
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
