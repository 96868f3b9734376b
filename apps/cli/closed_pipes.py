"""A command whose reader ends early, such as head, ends quietly."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PIPE_CLOSED = 141  # exit status that shells report for SIGPIPE


@contextmanager
def end_with_reader() -> Iterator[None]:
    """End without a traceback if the reader of standard output ends first, as in `manage.py … | head`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # so that flushing the rest of the buffers fails silently
            os.dup2(nowhere, stream.fileno())
        raise SystemExit(PIPE_CLOSED) from None
