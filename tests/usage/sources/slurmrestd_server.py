"""A server on this machine that answers as slurmrestd did, by TCP or by a unix socket."""

from __future__ import annotations

import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("unix", 0)


class Daemon:
    """What it answers to each path, and what it was asked; socket: the path of its socket instead of a port."""

    def __init__(self, answers: dict[str, tuple[int, bytes]], socket: str = "") -> None:
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        self.answers = answers
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                daemon.asked.append((url.path, parse_qs(url.query), dict(self.headers)))
                status, body = daemon.answers.get(url.path, (404, b"Unable find requested URL"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Silence."""

        self.server: socketserver.BaseServer
        if socket:
            self.server, self.address = _UnixServer(socket, Handler), f"unix:{socket}"
            self.place = self.address
        else:
            self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            self.place = f"127.0.0.1:{self.server.server_address[1]}"
            self.address = f"http://{self.place}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def sampled(samples: Path) -> dict[str, tuple[int, bytes]]:
    """The answers of a real Slurm 22.05."""
    return {
        "/slurmdb/v0.0.38/jobs": (200, (samples / "slurmrestd-slurmdb-v0.0.38-jobs.json").read_bytes()),
        "/slurm/v0.0.38/jobs": (200, (samples / "slurmrestd-slurm-v0.0.38-jobs.json").read_bytes()),
    }


def specification(*parsers: str, families: tuple[str, ...] = ("slurm", "slurmdb")) -> tuple[int, bytes]:
    """The answer to /openapi/v3 of a daemon with these parsers."""
    paths: dict[str, Any] = {f"/{family}/{parser}/jobs/": {"get": {}} for family in families for parser in parsers}
    return 200, orjson.dumps({"openapi": "3.0.3", "paths": {"/openapi/v3": {}, **paths}})
