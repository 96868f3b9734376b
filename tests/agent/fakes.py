"""A scheduler of fake commands in a folder, and a site of Fairshare on this machine, for the agent to work between."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = "fsh_test_secret"
COMMANDS = ("squeue", "sprio", "scontrol", "sshare", "sacctmgr", "qstat", "qalter", "qconf")
CONFIG = """Configuration data as of 2026-11-20T06:30:00
AccountingStorageEnforce = associations,limits
ClusterName             = demo
PriorityType            = priority/multifactor
PrioritySiteFactorPlugin = (null)
PriorityWeightFairShare = 0
SlurmUser               = root(0)
SLURM_VERSION           = 22.05.8
"""
SHARES = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare|LevelFS\nroot|||1.0|7|1.0||\n"
ORDERS: dict[str, Any] = {
    "name": "head", "policy": "demo", "kind": "slurm", "reach": "agent", "namespace": "demo", "partitions": None,
    "subtree": "/", "knob": "sitefactor", "weight": 100000, "step": 100, "mode": "on", "canary_partition": None,
    "every_s": 30, "paused": False, "reset_values": False, "revision": 7,
    "limits": {"snapshot_age_s": 900, "unmapped_percent": 20, "changed_percent": 50, "calls_per_s": 1000},
}  # fmt: skip


class FakeScheduler:
    """Jobs by number: user, group, and what was set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = Path(__file__).with_name("fake_scheduler.py").read_text().partition("\n")[2]
        for name in COMMANDS:
            (folder / name).write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{program}")
            (folder / name).chmod(0o755)
        (folder / "config.txt").write_text(CONFIG)
        self.replies: dict[str, Any] = {}
        self.answer("sshare", out=SHARES)

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads((self.folder / "jobs.json").read_text())
        return found

    @jobs.setter
    def jobs(self, jobs: dict[str, dict[str, Any]]) -> None:
        (self.folder / "jobs.json").write_text(json.dumps(jobs))

    @property
    def shares(self) -> dict[str, str]:
        """By account/user/partition."""
        found: dict[str, str] = json.loads((self.folder / "shares.json").read_text())
        return found

    @shares.setter
    def shares(self, shares: dict[str, str]) -> None:
        (self.folder / "shares.json").write_text(json.dumps(shares))

    def values(self, key: str = "site") -> dict[str, int | None]:
        return {number: job.get(key) for number, job in self.jobs.items()}

    def answer(self, command: str, **reply: Any) -> None:
        self.replies[command] = reply
        (self.folder / "replies.json").write_text(json.dumps(self.replies))

    def kill_caller(self, at: int, when: str) -> None:
        (self.folder / "kill.json").write_text(json.dumps({"at": at, "when": when}))

    def calls(self, *prefix: str) -> list[list[str]]:
        log = self.folder / "calls.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for line in lines if (call := json.loads(line))[: len(prefix)] == list(prefix)]

    def forget_calls(self) -> None:
        (self.folder / "calls.log").unlink(missing_ok=True)


class FakeSite:
    """Orders, factors by (user, group), and the reports that came."""

    def __init__(self) -> None:
        self.orders = json.loads(json.dumps(ORDERS))
        self.factors: dict[tuple[str, str], float] = {}
        self.age_s = 5.0
        self.snapshot = 812
        self.fallback = 0.5
        self.in_two_places: set[str] = set()
        self.reports: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.statuses: list[int] = []  # of the next requests, in place of an answer
        self.refuses_reports = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def order(self, **changes: Any) -> None:
        limits = changes.pop("limits", {})
        self.orders.update(changes, revision=self.orders["revision"] + 1)
        self.orders["limits"].update(limits)

    def _answer(self, method: str, path: str, body: Any) -> Any:
        if path == f"/api/v1/schedulers/{self.orders['name']}/orders":
            return self.orders
        if path == f"/api/v1/policies/{self.orders['policy']}/priorities/lookup":
            results = [result for each in body["accounts"] for result in self._results(each)]
            return {"snapshot": self.snapshot, "age_s": self.age_s, "results": results}
        if path == f"/api/v1/schedulers/{self.orders['name']}/passes":
            self.reports.append(body)
            return {"orders_revision": self.orders["revision"]}
        return None

    def _results(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        """As the real one: the group and the namespace are repeated, the project isn't; several entries, best first."""
        group = asked.get("project", asked.get("group", ""))
        factor = self.factors.get((asked["user"], group))
        about = {"account": asked["user"], **{name: asked[name] for name in ("group", "namespace") if name in asked}}
        if factor is None:
            return [{**about, "entry": None, "factor": self.fallback, "error": "unmapped"}]
        more = [{**about, "entry": f"/more/{asked['user']}", "factor": 0.0}] * (asked["user"] in self.in_two_places)
        return [{**about, "entry": f"/{group}/{asked['user']}", "factor": factor}, *more]

    def _handler(site) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply("GET")

            def do_POST(self) -> None:
                self._reply("POST")

            def _reply(self, method: str) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.requests.append((method, self.path, headers))
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                found = site._answer(method, self.path, json.loads(body) if body else None)
                status = 200 if found is not None else 404
                etag = f'"{site.orders["revision"]}"'
                if headers.get("authorization") != f"Bearer {TOKEN}":
                    status, found = 401, {"detail": "No such token."}
                elif site.refuses_reports and self.path.endswith("/passes"):
                    status, found = 422, {"detail": "as the test wants"}
                elif site.statuses:
                    status, found = site.statuses.pop(0), {"detail": "as the test wants"}
                elif headers.get("if-none-match") == etag:
                    status, found = 304, None
                content = b"" if status == 304 else json.dumps(found).encode()
                self.send_response(status)
                self.send_header("ETag", etag)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


class Place:
    """A host: the scheduler's commands on PATH, the agent's folder, its token file."""

    def __init__(self, folder: Path, archive: bytes) -> None:
        self.folder = folder
        self.scheduler = FakeScheduler(folder / "bin")
        self.site = FakeSite()
        self.state = folder / "state"
        self.token = folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        self.program = folder / "fairshare-agent.pyz"
        self.program.write_bytes(archive)

    def arguments(self, command: str, *more: str) -> list[str]:
        found = [command, "--state", str(self.state), *more]
        if command == "run":
            found += ["--server", self.site.url, "--scheduler", "head", "--token-file", str(self.token)]
        return found

    def run(self, command: str = "run", *more: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        """The built file, as a program."""
        once = ["--once"] if command == "run" and "--dry-run" not in more else []
        return subprocess.run(
            [python, str(self.program), *self.arguments(command, *once, *more)],
            env={"PATH": f"{self.scheduler.folder}:{os.environ['PATH']}", "TZ": "UTC", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def table(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "table.json").read_text())
        return found

    def lose_table(self) -> None:
        shutil.rmtree(self.state)
