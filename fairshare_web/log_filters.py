"""Filters of log records: the reason of a refusal, and no more lines of one cause than a file can hold."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

_WINDOW_S = 60.0
_MOST_LINES = 600  # of one cause in a window
_MOST_CAUSES = 1_000  # that are remembered


class SayReason(logging.Filter):
    """A refusal for a while (503) is a warning with its reason, not an error of the service without one."""

    def filter(self, record: logging.LogRecord) -> bool:
        reason = getattr(getattr(record, "request", None), "refused_because", "")
        if reason and getattr(record, "status_code", 0) == 503:
            record.msg, record.args = f"{record.getMessage()}: {reason}", ()
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        return True


@dataclass
class _Window:
    begun_s: float
    n_lines: int = 0
    n_left_out: int = 0


class LimitRepeats(logging.Filter):
    """Of each cause of warnings and errors one traceback and 600 lines a minute; the next line counts the others.

    Requests of strangers cause them, and a file that is full of one cause has lost all others.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._windows: dict[tuple[Any, ...], _Window] = {}

    def forget(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self._windows.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        with self._lock:
            is_shown = self._count(
                record, ("line", record.name, getattr(record, "status_code", record.msg)), _MOST_LINES
            )
            cause = _cause_of(record)
            if is_shown and cause and not self._count(record, cause, 1):
                record.exc_info = record.exc_text = None
                record.msg, record.args = f"{record.getMessage()}; its traceback was logged within a minute", ()
        return is_shown

    def _count(self, record: logging.LogRecord, key: tuple[Any, ...], most: int) -> bool:
        """Whether there is room for one more; adds how many there were no room for."""
        now_s, window = time.monotonic(), self._windows.pop(key, None)
        if window is None or now_s - window.begun_s >= _WINDOW_S:
            if window is not None and window.n_left_out:
                record.msg = f"{record.getMessage()} (and {window.n_left_out:,} more of this cause before)"
                record.args = ()
            window = _Window(now_s)
        self._windows[key] = window  # the last in the order of use
        if len(self._windows) > _MOST_CAUSES:
            del self._windows[next(iter(self._windows))]
        window.n_lines += 1
        is_shown = window.n_lines <= most
        window.n_left_out += not is_shown
        return is_shown


def _cause_of(record: logging.LogRecord) -> tuple[Any, ...] | None:
    """The kind and place of an exception; None without one."""
    kind, _error, trace = record.exc_info or (None, None, None)
    if kind is None or trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return ("traceback", kind, trace.tb_frame.f_code.co_filename, trace.tb_lineno)
