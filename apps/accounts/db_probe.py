"""Questions to a database that may accept them and never answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, close_old_connections, connection

T = TypeVar("T")


class Clerk:
    """A thread with a connection of its own: callers choose how long they wait.

    While a query is unanswered the next ones are refused at once, so that a hanging server blocks one caller.
    """

    def __init__(self) -> None:
        self._questions: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._unanswered: Future[Any] | None = None
        self._lock = threading.Lock()
        self._pid = 0

    def ask(self, question: Callable[[], T], *, patience_s: float) -> T:
        """
        Raises:
            OperationalError: no answer yet; and whatever the question raises.
        """
        if self._unanswered is not None and not self._unanswered.done():
            raise OperationalError("The database has not answered an earlier question.")
        self._start()
        answer: Future[T] = Future()
        self._questions.put((answer, question))
        try:
            return answer.result(patience_s)
        except TimeoutError:
            if not answer.cancel():
                self._unanswered = answer
            raise OperationalError("The database doesn't answer.") from None

    def _start(self) -> None:
        """Once a process: threads don't survive a fork."""
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid, self._questions, self._unanswered = os.getpid(), SimpleQueue(), None
            threading.Thread(target=self._work, args=(self._questions,), name="clerk", daemon=True).start()

    def _work(self, questions: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
        while True:
            answer, question = questions.get()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                close_old_connections()
                found = question()
            except (OperationalError, InterfaceError) as error:
                connection.close()
                answer.set_exception(error)
            except BaseException as error:  # the asker's to handle; this thread goes on
                answer.set_exception(error)
            else:
                answer.set_result(found)
