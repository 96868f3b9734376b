"""Responses on their way to the client: a slow reader holds up neither a thread nor memory."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import FileResponse, HttpResponse, HttpResponseBase

from fairshare_web.server import lanes

Send = Callable[[Any], Awaitable[None]]
Header = tuple[bytes, bytes]

STALL_S = 30.0  # a client that reads nothing for so long is disconnected
IN_MEMORY = 1024**2  # bytes of a stream that wait for the client; with more all of them lie in a file
MOST_WAITING = 512 * 1024**2  # bytes; beyond them the view waits for the client
PIECE = 128 * 1024
GATHERED = 32 * 1024  # bytes of a stream, but its last ones, that are written at once
AT_ONCE = 256 * 1024  # bytes of a response that the server gets in one piece, however slowly they are read


class Broken(Exception):
    """The response can't be sent to its end: the connection ends before it."""


class Outbox:
    """Between the thread that makes a stream and the event loop that sends it: what the client has not got yet.

    The thread calls `fill`, the event loop `next` and `abandon`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = asyncio.Event()
        self._changed = threading.Condition()
        folder = settings.FILE_UPLOAD_TEMP_DIR
        self._unsent = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=folder)  # noqa: SIM115 - outlives this call
        self._n_written = self._n_read = 0
        self._is_ended = self._is_broken = self._is_abandoned = False

    def fill(self, pieces: Iterable[bytes]) -> None:
        """Store the whole stream. One that fails is sent without its end, so that the client sees that it is
        incomplete.
        """
        try:
            self._is_ended = all(self._put(piece) for piece in _gathered(pieces))
        finally:
            with self._changed:
                self._is_broken = not self._is_ended
                if self._is_abandoned:
                    self._unsent.close()
            self._wake()

    def _put(self, piece: bytes) -> bool:
        """Whether the client still reads."""
        with self._changed:
            has_room = self._changed.wait_for(lambda: self._is_abandoned or self._n_unsent() < MOST_WAITING, STALL_S)
            if self._is_abandoned or not has_room:
                return False
            if not self._n_unsent():  # a client that keeps up needs no file
                self._unsent.seek(0)
                self._unsent.truncate()
                self._n_written = self._n_read = 0
            self._unsent.seek(self._n_written)
            self._unsent.write(piece)
            self._n_written += len(piece)
        self._wake()
        return True

    def _n_unsent(self) -> int:
        return self._n_written - self._n_read

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._ready.set)

    async def next(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            Broken: the stream ended before its end.
        """
        while True:
            self._ready.clear()
            is_over = self._is_ended or self._is_broken  # before what waits is counted: nothing is added after it
            if self._n_unsent():
                is_on_disk = self._unsent.name is not None
                piece = await self._loop.run_in_executor(lanes.DISK, self._take) if is_on_disk else self._take()
                if piece:  # else the thread could not write what it had begun to
                    return piece
            elif is_over:
                if self._is_broken:
                    raise Broken
                return b""
            await self._ready.wait()

    def _take(self) -> bytes:
        with self._changed:
            self._unsent.seek(self._n_read)
            piece = self._unsent.read(min(PIECE, self._n_unsent()))
            self._n_read += len(piece)
            self._changed.notify()
            return piece

    def abandon(self) -> None:
        """The client is gone: the thread stops at its next piece."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify()
            if self._is_ended or self._is_broken:
                self._unsent.close()


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """These bytes, GATHERED or more at a time: each piece takes a lock and wakes the event loop."""
    waiting, n_waiting = [], 0
    for piece in pieces:
        waiting.append(piece)
        n_waiting += len(piece)
        if n_waiting >= GATHERED:
            yield b"".join(waiting)
            waiting, n_waiting = [], 0
    if n_waiting:
        yield b"".join(waiting)


def headers_of(response: HttpResponseBase, *, closes: bool = False) -> list[Header]:
    """closes: say that the connection ends after this response."""
    headers = [(_header_name(name), value.encode("latin-1")) for name, value in response.items()]
    headers += [(b"set-cookie", morsel.OutputString().encode("latin-1")) for morsel in response.cookies.values()]
    return [*headers, (b"connection", b"close")] if closes else headers


@lru_cache(maxsize=256)
def _header_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


async def send_response(
    send: Send, response: HttpResponseBase, outbox: Outbox | None = None, path: str = "", *, closes: bool = False
) -> None:
    """path: of a file that the server sends by itself as the body.

    Raises:
        Broken: a stream failed, or the client has stopped reading.
    """
    headers = headers_of(response, closes=closes)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    if outbox is not None:
        await _send_stream(send, outbox)
    elif isinstance(response, HttpResponse):
        await _send_content(send, response.content)
    elif path:
        await send({"type": "http.response.pathsend", "path": path})


async def _send_content(send: Send, content: bytes) -> None:
    """What is long goes in pieces, so that between them the event loop answers others."""
    if len(content) > AT_ONCE:
        whole = memoryview(content)
        for start in range(0, len(content), PIECE):
            await _send_piece(send, bytes(whole[start : start + PIECE]))
        content = b""
    await send({"type": "http.response.body", "body": content})


async def _send_stream(send: Send, outbox: Outbox) -> None:
    try:
        while piece := await outbox.next():
            await _send_piece(send, piece)
        await send({"type": "http.response.body", "body": b""})
    finally:
        outbox.abandon()


async def _send_piece(send: Send, piece: bytes) -> None:
    try:
        async with asyncio.timeout(STALL_S):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except TimeoutError as error:
        raise Broken from error


def path_to_send(response: HttpResponseBase) -> str:
    """Of the file that is the whole body of this response, if there is one on disk; else empty."""
    file: Any = response.file_to_stream if isinstance(response, FileResponse) else None
    name = getattr(file, "name", None)
    is_whole = isinstance(file, io.BufferedReader) and file.tell() == 0
    return name if is_whole and isinstance(name, str) else ""
