"""Django's handler, run in a thread of a lane or, for answers from memory, in the caller's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from itertools import count
from typing import IO, Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.core.signals import request_finished, request_started
from django.http import HttpResponseBase

from apps.core.log_context import request_id
from apps.core.postgresql import n_commits
from apps.web.middleware.lookup import ANSWER_FROM, AnswerFrom
from apps.web.rest.requests import set_request_id
from fairshare_web.server.environ import SENDS_FILES, Environ
from fairshare_web.server.large_bodies import LargeBodies, NotStarted
from fairshare_web.server.replies import Outbox, path_to_send

log = logging.getLogger(__name__)

_MOST_REPEATS = 3  # of a request whose transaction the database gave up, and that has committed none


@dataclass(frozen=True, slots=True)
class Answer:
    """outbox: what a streaming response flows into. path: of the file that is the whole body."""

    response: HttpResponseBase
    outbox: Outbox | None = None
    path: str = ""


class Views:
    """large_bodies: where views run that get one; None: here, too."""

    def __init__(self, large_bodies: LargeBodies | None = None) -> None:
        self._handler = WSGIHandler()
        self._large_bodies = large_bodies

    def answer_from_memory(self, environ: Environ) -> Answer:
        """Without the signals that give back connections and caches: nothing is asked of them here."""
        return Answer(self._handler.get_response(WSGIRequest({**environ, ANSWER_FROM: AnswerFrom.MEMORY})))

    def answer_into(self, environ: Environ, content: IO[bytes]) -> dict[str, Any]:
        """Status, headers and cookies of the response, whose content is written to the file."""
        request_id.set(set_request_id(environ))
        response = self._respond(environ)
        try:
            content.writelines(response)
            content.flush()
        finally:
            response.close()
        cookies = [morsel.OutputString() for morsel in response.cookies.values()]
        return {"status": response.status_code, "headers": list(response.items()), "cookies": cookies}

    async def answer_in(
        self, lane: ThreadPoolExecutor, environ: Environ, *, is_lookup: bool = False, is_large: bool = False
    ) -> Answer:
        """A stream goes on flowing in its thread after this returns.

        Raises:
            Refused: as `LargeBodies.respond`.
        """
        outcome: Future[Answer] = Future()
        outcome.set_running_or_notify_cancel()  # from here on a client that goes away stops nothing
        if is_lookup:
            environ = {**environ, ANSWER_FROM: AnswerFrom.SNAPSHOTS}
        within = copy_context()  # also what a stream logs has the id of its request
        respond = self._respond_apart if is_large else self._respond
        lane.submit(within.run, self._work, respond, environ, asyncio.get_running_loop(), outcome)
        return await asyncio.wrap_future(outcome)

    def _work(
        self,
        respond: Callable[[Environ], HttpResponseBase],
        environ: Environ,
        loop: asyncio.AbstractEventLoop,
        outcome: Future[Answer],
    ) -> None:
        try:
            response = respond(environ)
        except BaseException as error:
            request_finished.send(sender=type(self))  # gives the thread's database connection back
            outcome.set_exception(error)
            return
        path = path_to_send(response) if environ.get(SENDS_FILES) else ""
        if path or not response.streaming:
            response.close()
            outcome.set_result(Answer(response, path=path))
            return
        outbox = Outbox(loop)
        outcome.set_result(Answer(response, outbox))
        try:
            outbox.fill(response)  # here, because the stream may hold a database cursor of this thread
        except Exception:
            log.exception("%s %s failed while it was sent", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        finally:
            response.close()

    def _respond_apart(self, environ: Environ) -> HttpResponseBase:
        if self._large_bodies is not None:
            with suppress(NotStarted):
                return self._large_bodies.respond(environ)
        return self._respond(environ)

    def _respond(self, environ: Environ) -> HttpResponseBase:
        request_started.send(sender=type(self), environ=environ)
        for n_tried in count(1):
            n_before = n_commits()
            response = self._handler.get_response(WSGIRequest(environ))
            body = environ["wsgi.input"]
            wants_repeat = getattr(response, "is_repeatable", False) and n_commits() == n_before and body.seekable()
            if not wants_repeat or n_tried > _MOST_REPEATS:
                break
            body.seek(0)
        response._handler_class = type(self)  # type: ignore[attr-defined]  # sender of `request_finished`
        return response
