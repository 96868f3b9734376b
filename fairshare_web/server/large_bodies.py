"""Requests with large bodies, each in a process beside the web server's.

Reading 100,000 entries, jobs or edits takes seconds in which look-ups of the same process would wait for the
interpreter's lock. Such a request goes, with its body as a file, to a process that runs the same views; here a thread
waits for the response. A process is started when it is needed, works on one request at a time within bounds of CPU and
memory, and ends when it has nothing to do. One that is killed stores nothing half: views store in transactions.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.http.cookie import parse_cookie

from fairshare_web.server.bodies import Refused
from fairshare_web.server.environ import Environ

log = logging.getLogger(__name__)

N_PROCESSES = 2
MOST_OF_SENDER = 2  # requests of one token or session, one of them in a process; so that others find the second free
RETRY_AFTER_S = 60
IDLE_S = 300.0
OUT_OF_MEMORY = 3  # exit status
_IN_MEMORY = 1024**2  # bytes of a response
_PIECE = 128 * 1024
_LENGTH_BYTES = 8
_PROGRAM = "fairshare_web.server.large_body_process"
_SENT_ON = (str, int)  # what else an environment holds (files, versions) the process has itself


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one request: seconds of CPU, and bytes of memory that the process shares with no other."""

    cpu_s: int = 300
    n_bytes: int = 3 * 1024**3


def sender_of(environ: Environ) -> str:
    """The token or session of a request, hashed; else its address."""
    session = parse_cookie(str(environ.get("HTTP_COOKIE", ""))).get(settings.SESSION_COOKIE_NAME)
    text = environ.get("HTTP_AUTHORIZATION") or session or environ.get("REMOTE_ADDR", "")
    return hashlib.sha256(str(text).encode("utf-8", "surrogateescape")).hexdigest()


class NotStarted(Exception):
    """No process could be started: the machine has no room for one."""


class _Ended(Exception):
    """The process ended before its response."""


class LargeBodies:
    """The processes of one web process. As many threads as there are processes get a response at once.

    environment: of the processes; by default that of this one.
    """

    def __init__(self, bounds: Bounds | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._environment = environment
        self._turns = threading.Semaphore(N_PROCESSES)
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._senders: Counter[str] = Counter()  # requests that are here, running or waiting
        self._of_sender: dict[str, threading.Lock] = {}
        self._timer: threading.Timer | None = None

    def respond(self, environ: Environ) -> HttpResponseBase:
        """The response to a request whose body has been read.

        Raises:
            Refused: 413 it needs more than its bounds, 503 the process was killed, or its sender has others here.
            NotStarted: there is no process for it, and nothing has begun.
        """
        with self.turn_of(sender_of(environ)), self._turns:
            process = self._take()
            try:
                response, goes_on = process.respond(environ)
            except _Ended:
                raise _refusal(process.end(), self._bounds) from None
            except BaseException:
                process.end()
                raise
            if goes_on:
                self._put_back(process)
            else:
                process.end()
            return response

    @contextmanager
    def turn_of(self, sender: str) -> Iterator[None]:
        """One at a time of each sender. Raises Refused where too many of them wait."""
        with self._lock:
            if self._senders[sender] >= MOST_OF_SENDER:
                detail = f"{MOST_OF_SENDER} large requests of yours are being read: send this one after them."
                raise Refused(503, "busy", detail, retry_after_s=RETRY_AFTER_S)
            self._senders[sender] += 1
            turn = self._of_sender.setdefault(sender, threading.Lock())
        try:
            with turn:
                yield
        finally:
            with self._lock:
                self._senders[sender] -= 1
                if not self._senders[sender]:
                    del self._senders[sender], self._of_sender[sender]

    def n_of(self, sender: str) -> int:
        """Requests of a sender that are here, running or waiting."""
        with self._lock:
            return self._senders[sender]

    def end_idle(self, idle_s: float = 0.0) -> None:
        """End those that have done nothing for so long."""
        with self._lock:
            latest_s = time.monotonic() - idle_s
            over = [process for process in self._idle if process.idle_since_s <= latest_s]
            self._idle = [process for process in self._idle if process.idle_since_s > latest_s]
            self._timer = None
            if self._idle:
                self._wait()
        for process in over:
            process.end()

    def _take(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    return process
                process.end()
        try:
            return _Process(self._bounds, self._environment)
        except OSError as error:
            log.exception("No process for a large body could be started; a thread reads it")
            raise NotStarted from error

    def _put_back(self, process: _Process) -> None:
        process.idle_since_s = time.monotonic()
        with self._lock:
            self._idle.append(process)
            if self._timer is None:
                self._wait()

    def _wait(self) -> None:
        self._timer = threading.Timer(IDLE_S, self.end_idle, [IDLE_S])
        self._timer.daemon = True
        self._timer.start()


class _Process:
    """It ends when its end of the connection is alone, so never later than this process."""

    def __init__(self, bounds: Bounds, environment: Mapping[str, str] | None) -> None:
        self.idle_since_s = 0.0
        self._connection, theirs = socket.socketpair()
        try:
            arguments = map(str, (theirs.fileno(), bounds.cpu_s, bounds.n_bytes))
            self._process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def respond(self, environ: Environ) -> tuple[HttpResponseBase, bool]:
        """(response, whether the process takes another request). Raises _Ended."""
        sent_on = {name: value for name, value in environ.items() if isinstance(value, _SENT_ON)}
        body = environ["wsgi.input"]
        with _as_file(body) as file:
            try:
                send(self._connection, sent_on, file)
                answer = receive(self._connection)
            except OSError:
                raise _Ended from None
        if answer is None:
            raise _Ended
        head, content = answer
        return _response(head, content), head["goes_on"]

    def end(self) -> int:
        """Its exit status, negative for a signal."""
        self._connection.close()
        return self._process.wait()


def _as_file(body: Any) -> IO[bytes]:
    """The body from its beginning, as a file of its own."""
    if not isinstance(body, io.BytesIO):
        body.seek(0)
        return os.fdopen(os.dup(body.fileno()), "rb")
    file = temporary_file()
    file.write(body.getvalue())
    file.seek(0)
    return file


def temporary_file() -> IO[bytes]:
    return tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)


def _response(head: Mapping[str, Any], content: IO[bytes]) -> HttpResponseBase:
    response: HttpResponse | StreamingHttpResponse
    if os.fstat(content.fileno()).st_size <= _IN_MEMORY:
        with content:
            response = HttpResponse(content.read(), status=head["status"])
    else:
        response = StreamingHttpResponse(_pieces(content), status=head["status"])
    del response["Content-Type"]
    for name, value in head["headers"]:
        response[name] = value
    for text in head["cookies"]:
        response.cookies.load(text)
    return response


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while piece := content.read(_PIECE):
            yield piece


def _refusal(status: int, bounds: Bounds) -> Refused:
    """What the process had stored by its end isn't known: it may have ended between its commit and its response."""
    look = "See whether it was done before you send it"
    if status == -signal.SIGXCPU:
        return Refused(413, "too_costly", f"This takes more than {bounds.cpu_s} s of processor time. {look} in parts.")
    if status == OUT_OF_MEMORY:
        return Refused(413, "too_costly", f"This needs too much memory. {look} in parts.")
    log.error("A process for large bodies ended with status %s", status)
    return Refused(503, "interrupted", f"The process that worked on this has ended. {look} again.")


def send(connection: socket.socket, head: Mapping[str, Any], file: IO[bytes]) -> None:
    """Send JSON and an open file. Raises OSError."""
    text = json.dumps(head).encode()
    socket.send_fds(connection, [len(text).to_bytes(_LENGTH_BYTES)], [file.fileno()])
    connection.sendall(text)


def receive(connection: socket.socket) -> tuple[dict[str, Any], IO[bytes]] | None:
    """What `send` sent, the file from its beginning; None at the end of the connection. Raises OSError."""
    length, files, _flags, _address = socket.recv_fds(connection, _LENGTH_BYTES, 1)
    if not files:
        return None
    file = os.fdopen(files[0], "rb")
    text = _read_exactly(connection, int.from_bytes(length))
    if text is None:
        file.close()
        return None
    file.seek(0)
    return json.loads(text), file


def _read_exactly(connection: socket.socket, n_bytes: int) -> bytes | None:
    read = bytearray()
    while len(read) < n_bytes:
        piece = connection.recv(n_bytes - len(read))
        if not piece:
            return None
        read += piece
    return bytes(read)
