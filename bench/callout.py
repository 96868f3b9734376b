"""`fairshare-callout` for 10,000 names from its cache, beside the limit of 50 ms.

Measured twice: the work of the program itself (arguments, cache, output, in this process), and the process as a
scheduler starts it, with the start of the interpreter. The site answers once, then it is gone.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.report import BenchLine

N_NAMES = 10_000
ROUNDS = 15
LIMIT_S = 0.050
FILE = Path(__file__).resolve().parents[1] / "terminal" / "fairshare_callout.py"


def measure() -> Iterator[BenchLine]:
    """Seconds of processor time, the least of several rounds: other work on the machine is no matter of the program."""
    program = _program()
    users = [f"user{number}" for number in range(N_NAMES)]
    names = "".join(f"{user}\n" for user in users).encode()
    with tempfile.TemporaryDirectory() as place:
        arguments = _fill_cache(program, Path(place), names)
        out = io.StringIO()
        assert program.run(arguments, io.BytesIO(names), out) == 0
        assert len(out.getvalue().splitlines()) == N_NAMES
        inside_s = min(
            _processor_s(lambda: program.run(arguments, io.BytesIO(names), io.StringIO())) for _ in range(ROUNDS)
        )
        command = [sys.executable, str(FILE), *arguments]
        whole_s = min(_child_s(command, names) for _ in range(ROUNDS))
        start_s = min(_child_s([sys.executable, "-c", ""], b"") for _ in range(ROUNDS))
        one_s = min(_child_s([sys.executable, str(FILE), *arguments[:-1], "user7"], b"") for _ in range(ROUNDS))
    yield BenchLine(
        "callout, 10,000 names from the cache / 50 ms",
        inside_s / LIMIT_S,
        1.0,
        f"{inside_s * 1e3:.1f} ms without the start of a process",
    )
    yield BenchLine(
        "the same as a process of its own / 50 ms",
        whole_s / LIMIT_S,
        None,
        f"{whole_s * 1e3:.1f} ms; an empty interpreter {start_s * 1e3:.1f} ms, one name {one_s * 1e3:.1f} ms",
    )


def _program() -> Any:
    spec = importlib.util.spec_from_file_location("fairshare_callout", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fill_cache(program: Any, place: Path, names: bytes) -> list[str]:
    """Options with which every name is in the cache, and fresh for a day."""
    token = place / "token"
    token.write_text("fsh_bench_" + "s" * 43)
    token.chmod(0o600)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    options = {
        "site": f"http://127.0.0.1:{server.server_address[1]}",
        "policy": "bench",
        "token-file": str(token),
        "cache-dir": str(place / "cache"),
        "fresh-s": "86400",
        "wait-s": "60",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)] + ["--stdin"]
    try:
        assert program.run(arguments, io.BytesIO(names), io.StringIO()) == 0
    finally:
        server.shutdown()
        server.server_close()
    return arguments


class _Site(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        accounts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["accounts"]
        results = [{"account": name, "factor": at / len(accounts)} for at, name in enumerate(accounts)]
        text = json.dumps({"snapshot": 1, "age_s": 1.0, "results": results}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Quietly."""


def _processor_s(work: Callable[[], object]) -> float:
    """Without collecting garbage, as the program's `main` runs."""
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()


def _child_s(command: list[str], stdin: bytes) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=stdin, stdout=subprocess.DEVNULL, check=True, env={"PATH": os.environ["PATH"]})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
