"""What the processes of the stack are started with."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apps.cli.stack.parent import SUPERVISED
from apps.core.code_paths import IS_INSTALLED, REPOSITORY
from apps.runs.queues import FEDERATION, SERIES

HOST = "127.0.0.1"  # local only by default; a reverse proxy serves other hosts
# `prepare` runs Django's checks once a start; workers need not repeat them.
_CELERY = ("-m", "celery", "--quiet", "--skip-checks", "-A", "fairshare_web")
_MANAGE = ("-m", "apps.cli") if IS_INSTALLED else (str(REPOSITORY / "manage.py"),)
_CALLERS = 10  # threads of the worker for other hosts: more than fetches, collections, webhooks and mail take together
_MOST_CONNECTIONS = 4096  # at once; idle ones and slow bodies need a file but no thread
_OTHER_FILES = 256  # of a web process, beside its connections: snapshots, bodies, the database
_HEAD_MS = 10_000  # time limit for the head of a request
STOP_S = 25  # time limit for running requests when the stack stops


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    command: tuple[str, ...]


def environment(var: Path, port: int) -> Mapping[str, str]:
    return {**os.environ, **listening(var, port)}


def listening(var: Path, port: int) -> Mapping[str, str]:
    """Variables of a process of the instance with this folder and port, whose end ends it."""
    return {
        "FAIRSHARE_VAR": str(var),
        "FAIRSHARE_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
        SUPERVISED: str(os.getpid()),
    }


def python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def manage(*arguments: str) -> tuple[str, ...]:
    return python(*_MANAGE, *arguments)


def web(port: int, host: str = HOST, *, n_processes: int = 1) -> Definition:
    # ASGI without lifespan, because `fairshare_web.server` reads bodies under a deadline. HTTP/1 only.
    command = python("-m", "granian", "--interface", "asginl", "--host", host, "--port", str(port), "--no-ws")
    command += ("--http", "1", "--http1-header-read-timeout", str(_HEAD_MS))
    command += ("--backlog", str(_MOST_CONNECTIONS), "--backpressure", str(_n_connections()))
    command += ("--workers", str(n_processes), "--respawn-failed-workers", "--workers-kill-timeout", str(STOP_S))
    return Definition("web", (*command, "--log-level", "error", "fairshare_web.asgi:application"))


def _n_connections() -> int:
    """How many at once a web process accepts. It raises its limit of open files as far as it may."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return min(_MOST_CONNECTIONS, max(limit - _OTHER_FILES, limit // 2))


def workers(port: int, n_processes: int) -> list[Definition]:
    """Workers of one process each, and one for other hosts.

    Of several, the first takes no series: where the second is in a long step of one, the first is left for recomputes.
    """
    left_out = [
        f"{FEDERATION},{SERIES}" if number == 1 < n_processes else FEDERATION for number in range(1, n_processes + 1)
    ]
    numbered = [
        worker(f"worker-{number}", f"worker-{number}-{port}@%h", exclude_queues=queues)
        for number, queues in enumerate(left_out, start=1)
    ]
    return [*numbered, outgoing(f"outgoing-{port}@%h")]


def worker(name: str, node: str, *, n_processes: int = 1, queues: str = "", exclude_queues: str = "") -> Definition:
    """A worker with one process, or a pool of several.

    n_processes: more than one needs Redis or RabbitMQ. With files, a process of a pool that is killed while it holds
    the queue's lock stops the others.
    """
    pool = ["--pool", "solo"] if n_processes == 1 else ["--pool", "prefork", "--concurrency", str(n_processes)]
    chosen = [
        *(["--queues", queues] if queues else []),
        *(["--exclude-queues", exclude_queues] if exclude_queues else []),
    ]
    return _worker(name, node, *pool, *chosen)


def outgoing(node: str) -> Definition:
    """A worker that does nothing but call other hosts. It waits for them most of the time, so it has threads."""
    return _worker("outgoing", node, "--queues", FEDERATION, "--pool", "threads", "--concurrency", str(_CALLERS))


def _worker(name: str, node: str, *options: str) -> Definition:
    # Gossip, mingle and heartbeats would only fill the file broker.
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return Definition(name, python(*_CELERY, "worker", "--loglevel", "WARNING", *options, *quiet, "-n", node))


def prepare(*arguments: str) -> Definition:
    return Definition("prepare", python("-m", "apps.cli.stack.prepare", *arguments))


def bell() -> Definition:
    """A message to running workers, so that one takes over the work of a worker that has ended."""
    code = "from fairshare_web.celery import app; app.send_task('apps.runs.tasks.sweep_runs', ignore_result=True)"
    return Definition("bell", python("-c", code))


def beat() -> Definition:
    # The schedule is in the database, so beat needs no file.
    command = python(*_CELERY, "beat", "--loglevel", "WARNING", "--pidfile=", "--max-interval", "5")
    return Definition("beat", command)
