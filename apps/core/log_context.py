"""Which request and which run a log line belongs to: set where either begins, read by the formats of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
run_id: ContextVar[int | None] = ContextVar("run_id", default=None)


@contextmanager
def within_run(run: int, request: str) -> Iterator[None]:
    """request: id of the request that started the run; "" for one of the schedule."""
    run_before, request_before = run_id.set(run), request_id.set(request)
    try:
        yield
    finally:
        run_id.reset(run_before)
        request_id.reset(request_before)
