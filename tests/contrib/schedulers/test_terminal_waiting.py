"""`fairshare why JOB`: why an own waiting job waits; a number that is no job may be an account."""

from __future__ import annotations

import json
from uuid import uuid4

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.services import connect_scheduler
from tests.contrib.schedulers.reports import job, report
from tests.instants import AT
from tests.terminal.conftest import Terminal, alice, terminal  # noqa: F401 - fixtures


def test_why_explains_own_waiting_jobs_and_hides_others(
    terminal: Terminal,  # noqa: F811
    alice: str,  # noqa: F811
) -> None:
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    several = [{"partition": "batch", "qos": qos, "priority": 597 - n} for n, qos in enumerate(("half", "normal"))]
    queue = [job("101", site=10, priorities=several), job("102", "bob", site=1_000_000)]
    came = {"started_at": AT, "ended_at": AT, "pass": uuid4()}
    record_pass(name="c1", report=report(**came, queue=queue), body_sha256="", at=AT, actor=SYSTEM)
    shown = terminal.run("why", "101", token=alice)
    assert shown.status == 0, shown.err
    assert {"Fairshare", "/physics"} <= {cell.strip() for line in shown.out.splitlines() for cell in line.split("  ")}
    assert "The best of its 2 priorities counts here: batch with QOS half." in shown.out
    assert ["batch", "half", "597", "1"] in [line.split() for line in shown.out.splitlines()]
    found = json.loads(terminal.run("why", "101", "--json", token=alice).out)
    assert (found["job"]["job"], found["ahead"], found["by_fairshare"]) == ("101", 1, 1)
    hidden, missing = (terminal.run("why", number, token=alice) for number in ("102", "999"))
    assert hidden == missing
    assert (hidden.status, hidden.out) == (1, "")
