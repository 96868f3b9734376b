"""The process that `large_bodies` starts: `python -m fairshare_web.server.large_body_process SOCKET CPU_S BYTES`.

It answers one request after another by the views of this site, until the web process closes the connection.
"""

from __future__ import annotations

import math
import os
import resource
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import django

from apps.cli.stack.parent import die_with_parent
from fairshare_web.server.environ import SENDS_FILES, Environ

_OOM_SCORE, _FIRST_TO_END = Path("/proc/self/oom_score_adj"), "500"
_GROWN_BYTES = 512 * 1024**2  # a process that has grown so far ends, and gives it back


def main(descriptor: int, cpu_s: int, n_bytes: int) -> None:
    die_with_parent(os.getppid())
    with suppress(OSError):  # where memory runs out, this process ends before one that answers look-ups
        _OOM_SCORE.write_text(_FIRST_TO_END)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    django.setup()
    from django.core.signals import got_request_exception

    from apps.runs.memory import own_bytes, spare_collector
    from apps.web.rest.body_limits import limit_of
    from fairshare_web.server.large_bodies import receive, send, temporary_file
    from fairshare_web.server.views import Views

    got_request_exception.connect(_end_without_memory)
    limit_of("/")  # imports all views
    views = Views()
    spare_collector()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_DATA, n_bytes)
    first_bytes = own_bytes()
    with socket.socket(fileno=descriptor) as connection:
        while request := receive(connection):
            _limit(resource.RLIMIT_CPU, math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + cpu_s)
            head, body = request
            with body, temporary_file() as content:
                answer = views.answer_into(_environ(head, body), content)
                goes_on = own_bytes() < first_bytes + _GROWN_BYTES
                send(connection, {**answer, "goes_on": goes_on}, content)
            if not goes_on:
                return


def _limit(kind: int, most: int) -> None:
    _soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _environ(head: dict[str, Any], body: IO[bytes]) -> Environ:
    return {**head, SENDS_FILES: False, "wsgi.version": (1, 0), "wsgi.input": body, "wsgi.errors": sys.stderr}


def _end_without_memory(**_: Any) -> None:
    """Receiver of Django's signal of an exception that no view has handled: its transaction has ended."""
    error: tuple[type[BaseException] | None, BaseException | None, TracebackType | None] = sys.exc_info()
    if isinstance(error[1], MemoryError):
        from fairshare_web.server.large_bodies import OUT_OF_MEMORY

        os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
