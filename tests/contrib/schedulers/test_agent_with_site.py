"""A pass between a real site, over REST, and a scheduler of fake commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.rest import Rest
from agent.state import open_table
from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers import models
from apps.contrib.schedulers.services import connect_scheduler
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from tests.agent.fakes import FakeScheduler
from tests.instants import AT
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

JOBS = {"alice": "physics", "bob": "physics", "carol": "biology", "stranger": "nowhere"}


@pytest.mark.paper("Z11")
def test_factors_of_a_site_arrive_in_the_scheduler(
    computed_site: Site, live_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.poll()
    given = {"mode": "on", "namespace": "a", "limits": {"unmapped_percent": 30, "calls_per_s": 1000}}
    connect_scheduler(policy_slug="grid", name="c1", settings=given, at=AT, actor=SYSTEM)
    token = computed_site.token("schedulers", "priorities:read", policy_slug="grid")
    scheduler = FakeScheduler(tmp_path / "bin")
    scheduler.jobs = {str(n): {"user": user, "group": group} for n, (user, group) in enumerate(JOBS.items(), 1)}
    monkeypatch.setenv("PATH", f"{scheduler.folder}:{os.environ['PATH']}")
    collected: list[str] = []
    agent = Agent(
        Rest(str(live_server), "c1", token),
        Commands(),
        open_table(str(tmp_path / "state")),
        "head1",
        collected.append,
        clock=AT.timestamp,
    )
    agent.run_pass()
    assert collected == []
    values = scheduler.values()
    served = store.newest("grid")
    factors = {line["account"]: line["factor"] for line in every_leaf(served)}
    assert values == {
        "1": round(100_000 * factors["alice"]),
        "2": round(100_000 * factors["bob"]),
        "3": round(100_000 * factors["carol"]),
        "4": 50_000,
    }
    stored = models.AgentPass.objects.get()
    assert (stored.frozen_code, stored.pending, stored.sent, stored.unmapped) == ("", 4, 4, 1)
    assert stored.unmapped_names == [{"user": "stranger", "group": "nowhere", "jobs": 1}]
    assert models.QueueListing.objects.get().n_jobs == 4
    assert {check["severity"] for check in models.Scheduler.objects.get().checks or ()} == {"ok", "warning"}
    scheduler.forget_calls()
    agent.run_pass()
    assert scheduler.calls("scontrol", "update") == []
    assert models.AgentPass.objects.count() == 2
