"""From an ASGI request to Django's synchronous handler and back.

WSGI threads that wait for bodies can all be held by clients that send one byte a second. Here a thread gets a request
whose body is complete; look-ups are answered in the event loop itself where memory suffices.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import time
from functools import partial

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.utils.log import log_response

from apps.core.log_context import request_id
from apps.web.middleware.lookup import NeedsWorkerThread
from apps.web.rest import errors
from apps.web.rest.body_limits import limit_of
from apps.web.rest.requests import HEADER, set_request_id
from apps.web.rest.transport import forbid_caching
from apps.web.shell.errors import refused_body
from fairshare_web.server import lanes
from fairshare_web.server.access_log import CLIENT_GONE, log_request
from fairshare_web.server.bodies import (
    UNSEEN_BYTES,
    BodyReader,
    Disconnected,
    Receive,
    Refused,
    declared_length,
    drain,
    too_long,
    without_body,
)
from fairshare_web.server.descriptors import SpareDescriptors
from fairshare_web.server.environ import SENDS_FILES, BodyWanted, Environ, Scope, environ_of
from fairshare_web.server.large_bodies import LargeBodies
from fairshare_web.server.replies import Send, send_response
from fairshare_web.server.views import Answer, Views

_IN_LOOP_BYTES = 64 * 1024  # of a look-up that is answered in the event loop


log = logging.getLogger(__name__)
CUT = Refused(400, "cut_body", "The body ended early, or its chunks are broken. Send the whole body again.")
FAILED = Refused(500, "internal", "Internal error. The server's log has details.")


class Application:
    """ASGI. Django's middleware and routes are loaded once, when it is made."""

    def __init__(self, spare: SpareDescriptors | None = None, large_bodies: LargeBodies | None = None) -> None:
        self._views = Views(large_bodies)
        self._spare = spare or SpareDescriptors()
        limit_of("/")  # imports all views: otherwise the first body would block the event loop for it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served here")
        environ = environ_of(scope)
        environ[SENDS_FILES] = "http.response.pathsend" in scope.get("extensions", {})
        began_s, status = time.perf_counter(), CLIENT_GONE
        request_id.set(set_request_id(environ))  # of this task: each request has its own
        try:
            answer, closes = await self._answer(environ, receive)
            closes = closes or self._spare.is_short
            await send_response(send, answer.response, answer.outbox, answer.path, closes=closes)
            status = answer.response.status_code
        finally:
            environ["wsgi.input"].close()
            log_request(environ, status, began_s)

    async def _answer(self, environ: Environ, receive: Receive) -> tuple[Answer, bool]:
        """The answer, and whether the connection ends with it: the body was not read."""
        try:
            unread = await self._read_body(environ, receive)
            if unread is not None:
                return unread, True
            return self._from_memory(environ) or await self._from_threads(environ), False
        except Refused as refusal:
            return Answer(await self._refusal(environ, refusal)), True
        except Disconnected:  # or its chunks are broken, which the server reports in the same way
            return Answer(await self._refusal(environ, CUT)), True
        except Exception:
            log.exception("%s %s failed in the server", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            return Answer(await self._refusal(environ, FAILED)), True

    async def _read_body(self, environ: Environ, receive: Receive) -> Answer | None:
        """Put the body into the environment; or what views answer to a long one that they don't want.

        Raises:
            Refused: too long or too slow.
            Disconnected: the client went away.
        """
        declared = declared_length(environ)
        if declared == 0:
            return None
        limit = limit_of(environ["PATH_INFO"])
        if declared is not None and declared > limit.n_bytes:
            if "HTTP_EXPECT" not in environ:  # such a client sends the body only when it is read
                await drain(receive)
            raise too_long(limit)
        reader = BodyReader(receive, limit, declared)
        if declared is None:
            await reader.read(until=UNSEEN_BYTES)
        if (declared or 0) > UNSEEN_BYTES or (declared is None and not reader.is_complete):
            with contextlib.suppress(BodyWanted):
                return await self._from_threads(without_body(environ, declared or limit.n_bytes))
        await reader.read()
        environ["wsgi.input"] = await reader.finished()
        environ["CONTENT_LENGTH"] = str(reader.n_bytes)  # also of a chunked one
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        if reader.n_bytes <= UNSEEN_BYTES and lanes.holds_much(environ):  # long, but for its packing
            with contextlib.suppress(BodyWanted):
                return await self._from_threads(without_body(environ, reader.n_bytes))
        return None

    def _from_memory(self, environ: Environ) -> Answer | None:
        """The answer made here, in the event loop, where nothing has to be waited for."""
        if environ["PATH_INFO"] != "/healthz":
            body = environ["wsgi.input"]
            is_short = isinstance(body, io.BytesIO) and body.getbuffer().nbytes <= _IN_LOOP_BYTES
            if not is_short or lanes.lane_of(environ) is not lanes.LOOKUP:
                return None
        answer = self._views.answer_from_memory(environ)
        if isinstance(answer.response, NeedsWorkerThread):
            environ["wsgi.input"].seek(0)
            return None
        return answer

    async def _from_threads(self, environ: Environ) -> Answer:
        lane = lanes.lane_of(environ)
        answer = await self._views.answer_in(
            lane, environ, is_lookup=lane is lanes.LOOKUP, is_large=lane is lanes.LARGE
        )
        if isinstance(
            answer.response, NeedsWorkerThread
        ):  # a look-up that needs sessions or views: not by threads of look-ups
            environ["wsgi.input"].seek(0)
            answer = await self._views.answer_in(lanes.REST, environ)
        return answer

    async def _refusal(self, environ: Environ, refusal: Refused) -> HttpResponse:
        request = WSGIRequest(environ)
        name = request_id.get()
        if environ["PATH_INFO"].startswith("/api/"):
            response = errors.problem(request, refusal.status, refusal.code, refusal.detail)
        else:
            page = partial(refused_body, request, refusal.status, refusal.code, refusal.detail)
            response = await asyncio.get_running_loop().run_in_executor(lanes.REST, page)
        forbid_caching(response)  # no middleware has seen it
        response[HEADER] = name
        if refusal.retry_after_s:
            response["Retry-After"] = str(refusal.retry_after_s)
        log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request)
        return response
