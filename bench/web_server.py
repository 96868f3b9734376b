"""The real web server as a process of its own, on the database of the bench."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apps.cli.stack import definitions
from apps.core.code_paths import REPOSITORY

HOST = "\r\nHost: localhost\r\n"


@contextmanager
def web_server(n_processes: int = 1) -> Iterator[int]:
    """Its port, once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = dict(definitions.environment(Path(os.environ["FAIRSHARE_VAR"]), port))
    environment["DJANGO_SETTINGS_MODULE"] = "bench.web_settings"
    server = subprocess.Popen(definitions.web(port, n_processes=n_processes).command, env=environment, cwd=REPOSITORY)
    try:
        deadline = time.monotonic() + 300  # on a busy machine
        while True:
            try:
                if ask(port, f"GET /healthz HTTP/1.1{HOST}Connection: close\r\n\r\n".encode()):
                    break
            except OSError:
                assert time.monotonic() < deadline, "the web server does not answer"
                time.sleep(0.2)
        yield port
    finally:
        server.terminate()
        server.wait(60)


def serving_processes() -> list[int]:
    """Those of web servers that this process has started: below the ones that watch them."""
    servers = [pid for pid in processes_below(os.getpid()) if b"granian" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return [pid for pid in servers if not set(processes_below(pid)) & set(servers)]


def processes_below(pid: int) -> list[int]:
    """Those that this one has started, and those that they have."""
    children = list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return [*children, *(each for child in children for each in processes_below(child))]


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def ask(port: int, request: bytes) -> bytes:
    """The status line and a little more; the rest is read and dropped."""
    with connect(port) as connection:
        connection.sendall(request)
        beginning = connection.recv(65536)
        while connection.recv(1 << 20):
            pass
    return beginning
