"""One pass of the agent over 50,000 pending jobs: the scheduler is a recorder that answers at once, the site a stub.

The listing is the captured one of tests/golden, multiplied to 50,000 jobs of 2,000 accounts. The anchor reads the same
listing as JSON: what `squeue --json` would make the agent do before anything else. The goal is 10 s for the first pass,
in which every job gets a value, and nothing sent in the second.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.adapters import slurm
from agent.commands import Commands, Output
from agent.loop import Agent
from agent.orders import Orders, read_orders
from agent.source import Source
from agent.state import open_table
from bench.report import BenchLine

N_JOBS = 50_000
N_ACCOUNTS = 2_000
LIMIT_S = 10.0
SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "golden" / "slurm" / "samples"
ORDERS: dict[str, Any] = {
    "name": "head", "policy": "demo", "kind": "slurm", "namespace": None, "partitions": None, "subtree": "/",
    "knob": "sitefactor", "weight": 100_000, "step": 100, "mode": "on", "canary_partition": None, "every_s": 30,
    "paused": False, "reset_values": False, "revision": 1,
    "limits": {"snapshot_age_s": 900, "unmapped_percent": 20, "changed_percent": 50, "calls_per_s": 1000},
}  # fmt: skip


class Recorder(Commands):
    """Answers squeue and sprio from the captured listing and keeps what scontrol would have set."""

    def __init__(self) -> None:
        super().__init__(calls_per_s=1000)
        self.site: dict[str, int] = {}
        self.n_updates = 0
        rows = (SAMPLES / "agent-squeue.txt").read_text().splitlines()
        self._captured = [row.split("|") for row in rows if "PENDING" in row]

    def run(self, argv: Sequence[str]) -> Output:
        self.n_calls += 1
        began = time.perf_counter()
        text = self._answer(list(argv))
        self.spent_s += time.perf_counter() - began
        return Output(0, text, "")

    def _answer(self, argv: list[str]) -> str:
        if argv[0] == "squeue":
            return "".join(self._row(number) for number in range(1, N_JOBS + 1))
        if argv[0] == "sprio":
            return "".join(self._terms(str(number)) for number in range(1, N_JOBS + 1))
        if argv[:2] == ["scontrol", "update"]:
            self._update(argv[2], argv[3])
        if argv[0] == "sshare":
            return "Account|User|RawShares|RawUsage|FairShare\n"
        return "SLURM_VERSION = 22.05.8\nPriorityType = priority/multifactor\nSlurmUser = root(0)\n"

    def _row(self, number: int) -> str:
        cells = list(self._captured[number % len(self._captured)])
        cells[0] = cells[1] = str(number)
        cells[3], cells[4] = f"user{number % N_ACCOUNTS}", f"group{number % 50}"
        return "|".join(cells) + "\n"

    def _terms(self, number: str) -> str:
        site = self.site.get(number, 0)
        return f"{number}|{600 + site}|{site}|0|0|0|100|500|0|0\n"

    def _update(self, jobs: str, setting: str) -> None:
        self.n_updates += 1
        value = int(setting.partition("=")[2])
        for number in jobs.partition("=")[2].split(","):
            self.site[number] = value


class Site(Source):
    """Every account is mapped; factors have 2,000 different values."""

    def orders(self) -> Orders:
        return read_orders(ORDERS)

    def look_up(self, policy: str, accounts: Sequence[dict[str, str]]) -> Any:
        results = [
            {"account": each["user"], "entry": "/x", "factor": 0.5 + int(each["user"][4:]) / (2 * N_ACCOUNTS)}
            for each in accounts
        ]
        return {"snapshot": 1, "age_s": 1.0, "results": results}

    def report(self, report: dict[str, Any]) -> int | None:
        json.dumps(report)
        return 1


def measure() -> list[BenchLine]:
    """CPU seconds of this process, without what the recorder took to make its answers."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder()
        first_s = _pass(recorder, folder)
        assert len(recorder.site) == N_JOBS, "every job has its value"
        n_updates = recorder.n_updates
        second_s = _pass(recorder, folder)
        assert recorder.n_updates == n_updates, "nothing is sent when nothing changed"
    columns_s, json_s, megabytes = _reading()
    return [
        BenchLine("agent, first pass over 50,000 jobs / seconds allowed", first_s / LIMIT_S, 1.0, f"{first_s:.2f} s"),
        BenchLine("agent, pass without a change / seconds allowed", second_s / LIMIT_S, 1.0, f"{second_s:.2f} s"),
        BenchLine(
            "agent, reading columns / reading squeue --json",
            columns_s / json_s,
            None,
            f"{columns_s:.2f} s beside {json_s:.2f} s for {megabytes:.0f} MB, squeue's own time aside",
        ),
    ]


def _pass(recorder: Recorder, folder: str) -> float:
    """A new agent each time: queue, values and checks are part of the report of its first pass."""
    agent = Agent(Site(), recorder, open_table(folder), "bench", log=lambda text: None)
    before_s, began = recorder.spent_s, time.process_time()
    document = agent.run_pass()
    used_s = time.process_time() - began - (recorder.spent_s - before_s)
    assert document["frozen"] is None, document["frozen"]
    return used_s


def _reading() -> tuple[float, float, float]:
    recorder = Recorder()
    rows, terms = recorder.run(["squeue"]).out, recorder.run(["sprio"]).out
    columns_s = _seconds(lambda: slurm.parse_queue(rows, slurm.parse_priorities(terms), "sitefactor"))
    captured = json.loads((SAMPLES / "squeue.json").read_text())["jobs"]
    whole = json.dumps({"jobs": [captured[n % len(captured)] for n in range(N_JOBS // 10)]})
    return columns_s, 10 * _seconds(lambda: json.loads(whole)), len(whole) * 10 / 1e6


def _seconds(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
