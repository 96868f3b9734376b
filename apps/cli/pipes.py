"""What a command does whose reader has read enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PIPE_CLOSED = 141  # as a shell reports a program that SIGPIPE ended


@contextmanager
def end_with_the_reader() -> Iterator[None]:
    """`manage.py … | head` ends without a traceback, also where the last lines were still to be written."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # what is still buffered has nowhere to go
            os.dup2(nowhere, stream.fileno())
        raise SystemExit(PIPE_CLOSED) from None
