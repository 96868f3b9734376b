"""One pass of an agent that kills itself when it begins a step: `python -m tests.agent.killed_agent STATE SITE [STEP]`.

SITE is a JSON file: {"orders": {…}, "factors": {"ann physics": 0.5}}; the report is written beside it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.commands import Commands
from agent.loop import STEPS, Agent
from agent.orders import Orders, read_orders
from agent.source import Source
from agent.state import open_table


class FileSite(Source):
    def __init__(self, path: Path) -> None:
        self.path, self.given = path, json.loads(path.read_text())

    def orders(self) -> Orders:
        return read_orders(self.given["orders"])

    def look_up(self, policy: str, accounts: Sequence[dict[str, str]]) -> Any:
        results = [
            {"account": each["user"], "entry": f"/{each['user']}", "error": None, "factor": self._factor(each)}
            for each in accounts
        ]
        return {"snapshot": 1, "age_s": 1.0, "results": results}

    def _factor(self, account: dict[str, str]) -> float:
        return float(self.given["factors"][f"{account['user']} {account['group']}"])

    def report(self, report: dict[str, Any]) -> int:
        self.path.with_suffix(".report").write_text(json.dumps(report))
        return 1


class MortalAgent(Agent):
    ends_at = ""

    def _begin(self, step: str) -> None:
        assert step in STEPS
        if step == self.ends_at:
            os.kill(os.getpid(), signal.SIGKILL)


def main(state: str, site: str, ends_at: str = "") -> int:
    agent = MortalAgent(
        FileSite(Path(site)), Commands(), open_table(state), "head1", lambda text: print(text, flush=True)
    )
    agent.ends_at = ends_at
    return 1 if agent.run_pass()["frozen"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
