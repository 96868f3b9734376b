"""A scheduler of fake commands in a folder, and a site of Fairshare on this machine, for the agent to work between."""

from __future__ import annotations

import atexit
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from ast import literal_eval
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.forked import ForkServer

TOKEN = "fsh_test_secret"
_OF_HTCONDOR = ("condor_q", "condor_userprio", "condor_config_val", "condor_version", "condor_ping")
COMMANDS = ("squeue", "sinfo", "sprio", "scontrol", "sshare", "sacctmgr", "qstat", "qalter", "qconf", *_OF_HTCONDOR)
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
    "every_s": 30, "follows": False, "paused": False, "reset_values": False, "revision": 7,
    "limits": {"snapshot_age_s": 900, "unmapped_percent": 20, "changed_percent": 50, "calls_per_s": 1000},
}  # fmt: skip

# A command of the scheduler: the interpreter, and the folder of the module that is compiled once for all of them.
_FAKE = """#!{} -IS
import sys
sys.path.insert(0, "{}")
from fake_scheduler import main
sys.exit(main())
"""
_LONGEST_AGENT_S = 60.0
_servers: dict[bytes, ForkServer] = {}  # by the digest of the built file
_starting = threading.Lock()


class FakeScheduler:
    """Jobs by number: user, group, and what was set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in COMMANDS:
            (folder / name).write_text(_FAKE.format(os.path.realpath(sys.executable), Path(__file__).resolve().parent))
            (folder / name).chmod(0o755)
        (folder / "config.txt").write_text(CONFIG)
        self.replies: dict[str, Any] = {}
        self.answer("sshare", out=SHARES)

    def _read(self, name: str) -> Any:
        return literal_eval((self.folder / name).read_text())

    def _write(self, name: str, content: Any) -> None:
        (self.folder / name).write_text(repr(content))

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        jobs: dict[str, dict[str, Any]] = self._read("jobs")
        return jobs

    @jobs.setter
    def jobs(self, jobs: dict[str, dict[str, Any]]) -> None:
        self._write("jobs", jobs)

    @property
    def shares(self) -> dict[str, str]:
        """By account/user/partition."""
        shares: dict[str, str] = self._read("shares")
        return shares

    @shares.setter
    def shares(self, shares: dict[str, str]) -> None:
        self._write("shares", shares)

    @property
    def limits(self) -> dict[str, dict[str, str]]:
        """Settings by account, of accounts that have some."""
        accounts = self._read("limits")
        return {name: settings for name, (_parent, settings, _n_users) in accounts.items() if settings}

    def have_accounts(self, accounts: dict[str, tuple[str, dict[str, str], int]]) -> None:
        """Parent, settings and number of users by account."""
        self._write("limits", accounts)

    def refuse(self, **messages: str) -> None:
        """What the scheduler says instead of setting limits of an account."""
        self._write("refusals", messages)

    @property
    def factors(self) -> dict[str, str]:
        """By submitter of HTCondor, as printed."""
        factors: dict[str, str] = self._read("factors")
        return factors

    @factors.setter
    def factors(self, factors: dict[str, str]) -> None:
        self._write("factors", factors)

    def deny(self, *submitters: str) -> None:
        """Their factors can't be set, and the command doesn't say so."""
        self._write("denied", submitters)

    def values(self, key: str = "site") -> dict[str, int | None]:
        return {number: job.get(key) for number, job in self.jobs.items()}

    def answer(self, command: str, **reply: Any) -> None:
        self.replies[command] = reply
        self._write("replies", self.replies)

    def kill_caller(self, at: int, when: str) -> None:
        self._write("kill", {"at": at, "when": when})

    def calls(self, *prefix: str) -> list[list[str]]:
        log = self.folder / "calls.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for line in lines if (call := literal_eval(line))[: len(prefix)] == list(prefix)]

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

    def run(self, command: str = "run", *more: str) -> subprocess.CompletedProcess[str]:
        """As the built file does: its modules are loaded once for all runs, and each run is a process."""
        once = ["--once"] if command == "run" and "--dry-run" not in more else []
        arguments = self.arguments(command, *once, *more)
        shown = [sys.executable, str(self.program), *arguments]
        env = {"PATH": f"{self.scheduler.folder}:{os.environ['PATH']}", "TZ": "UTC", "HOME": str(self.folder)}
        with open(os.devnull) as typed, TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            files = [typed.fileno(), out.fileno(), errors.fileno()]
            status = _loaded(self.program).run(
                shown, arguments, env=env, cwd=Path.cwd(), files=files, timeout_s=_LONGEST_AGENT_S
            )
            for file in (out, errors):
                file.seek(0)
            return subprocess.CompletedProcess(shown, status, out.read(), errors.read())

    def table(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "table.json").read_text())
        return found

    def lose_table(self) -> None:
        shutil.rmtree(self.state)


def _loaded(program: Path) -> ForkServer:
    """A process that has loaded this built file; the same one for files with the same bytes."""
    digest = hashlib.sha256(program.read_bytes()).digest()
    with _starting:
        if digest not in _servers:
            _servers[digest] = ForkServer("-m", "tests.agent.loaded_agent", str(program), env=os.environ)
            atexit.register(_servers[digest].close)
        return _servers[digest]
