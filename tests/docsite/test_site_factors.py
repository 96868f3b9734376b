"""The script of the Slurm recipe sets site factors from look-ups, and leaves them when nobody answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from apps.cli.stack.paths import REPOSITORY

SCRIPT = REPOSITORY / "docs/examples/slurm/site-factors.py"
QUEUE = "17|alice|physics|\n18|alice|physics|\n19|carol|biology|\n"


class LookUps(BaseHTTPRequestHandler):
    asked: list[dict[str, object]]
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append({"token": self.headers["Authorization"], **body})
        factors = {"alice": 0.25, "carol": 1.0}
        answer = json.dumps({"results": [{"factor": factors[one["user"]]} for one in body["accounts"]]}).encode()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def look_ups() -> Iterator[str]:
    LookUps.asked, LookUps.status = [], 200
    with HTTPServer(("127.0.0.1", 0), LookUps) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/lookup"
        server.shutdown()
        thread.join()


def run_script(folder: Path, address: str) -> tuple[int, list[str]]:
    """Exit status, and each call of scontrol."""
    calls = folder / "calls"
    calls.touch()
    for name, text in {"squeue": f"printf '%s' '{QUEUE}'", "scontrol": f'echo "$*" >> {calls}'}.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "FAIRSHARE_LOOKUP": address,
        "FAIRSHARE_TOKEN": "fsh_x",
        "FAIRSHARE_NAMESPACE": "linux",
        "FAIRSHARE_WEIGHT": "1000",
    }
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, calls.read_text(encoding="utf-8").splitlines()


def test_jobs_of_an_account_get_its_factor_by_one_call(tmp_path: Path, look_ups: str) -> None:
    status, calls = run_script(tmp_path, look_ups)
    assert status == 0
    assert calls == ["update JobId=17,18 SiteFactor=250", "update JobId=19 SiteFactor=1000"]
    accounts = [
        {"user": "alice", "group": "physics", "namespace": "linux"},
        {"user": "carol", "group": "biology", "namespace": "linux"},
    ]
    assert LookUps.asked == [{"token": "Bearer fsh_x", "accounts": accounts}]


def test_without_an_answer_site_factors_stay(tmp_path: Path, look_ups: str) -> None:
    LookUps.status = 503
    assert run_script(tmp_path, look_ups) == (1, [])
