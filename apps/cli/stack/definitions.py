"""What the stack consists of, above the database: web, workers, beat."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apps.cli.stack.parent_watch import SUPERVISED
from apps.cli.stack.paths import REPOSITORY

HOST = "127.0.0.1"  # the first run is private; a reverse proxy serves the world
# Django's checks are made once a start, in `prepare`; every worker would repeat them.
_CELERY = ("-m", "celery", "--quiet", "--skip-checks", "-A", "fairshare_web")
_WORKERS = 2  # a long import leaves one for recomputes
_CONNECTIONS = 4096  # at once; idle ones and those with slow bodies cost a file and no thread
_HEAD_MS = 10_000  # for the head of a request
STOP_S = 25  # for requests that are being answered when the stack is asked to stop


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    command: tuple[str, ...]


def environment(var: Path, port: int) -> Mapping[str, str]:
    return {
        **os.environ,
        "FAIRSHARE_VAR": str(var),
        "FAIRSHARE_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
        SUPERVISED: str(os.getpid()),
    }


def python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def manage(*arguments: str) -> tuple[str, ...]:
    return python(str(REPOSITORY / "manage.py"), *arguments)


def web(port: int, host: str = HOST) -> Definition:
    # ASGI without lifespan: what reads bodies under a deadline is ours (`fairshare_web.server`). HTTP/1 alone.
    command = python("-m", "granian", "--interface", "asginl", "--host", host, "--port", str(port), "--no-ws")
    command += ("--http", "1", "--http1-header-read-timeout", str(_HEAD_MS))
    command += ("--backlog", str(_CONNECTIONS), "--backpressure", str(_CONNECTIONS))
    command += ("--workers", "1", "--respawn-failed-workers", "--workers-kill-timeout", str(STOP_S))
    return Definition("web", (*command, "--log-level", "error", "fairshare_web.asgi:application"))


def workers(port: int) -> list[Definition]:
    return [worker(f"worker-{number}", f"worker-{number}-{port}@%h") for number in range(1, _WORKERS + 1)]


def worker(name: str, node: str) -> Definition:
    """A single process, not a pool: a pool process killed while it holds the queue's lock stops all the others."""
    # Gossip, mingling and heartbeats would fill the file broker with useless messages.
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return Definition(name, python(*_CELERY, "worker", "--loglevel", "WARNING", "--pool", "solo", *quiet, "-n", node))


def bell() -> Definition:
    """Wakes the running workers: one takes over a dead one's work before that one is back."""
    code = "from fairshare_web.celery import app; app.send_task('apps.runs.tasks.work_runs', ignore_result=True)"
    return Definition("bell", python("-c", code))


def beat() -> Definition:
    # The schedule is in the database, so there is no file and no second beat to guard against but our own lock.
    command = python(*_CELERY, "beat", "--loglevel", "WARNING", "--pidfile=", "--max-interval", "5")
    return Definition("beat", command)
