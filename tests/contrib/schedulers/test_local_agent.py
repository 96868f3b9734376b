"""`manage.py agent run`: the agent beside the site carries factors to a scheduler of fake commands, and reports."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from agent.commands import Commands
from agent.loop import Agent
from agent.state import open_table
from apps.contrib.schedulers.management.commands.agent import Services
from apps.contrib.schedulers.models import AgentPass, Scheduler
from apps.contrib.schedulers.queue_table import load_queue
from tests.agent.fakes import FakeScheduler
from tests.instants import AT
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def run(folder: Path, *words: str) -> str:
    out = StringIO()
    call_command("agent", "run", "c1", "--once", "--state", str(folder), *words, stdout=out)
    return out.getvalue()


def test_a_pass_sets_values_and_is_stored_with_its_queue(
    connected: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(fake.folder))
    fake.jobs = {
        "11": {"user": "alice", "group": "physics"},
        "12": {"user": "bob", "group": "physics"},
    }
    run(tmp_path / "state")
    stored = AgentPass.objects.get()
    assert (stored.pending, stored.mapped, stored.sent, stored.frozen_code) == (2, 2, 2, "")
    values = fake.values()
    assert (values["12"] or 0) > (values["11"] or 0) > 0, "alice used six hours of ten, bob one"
    table = load_queue(Scheduler.objects.get().pk)
    assert table is not None
    assert sorted(table.job) == ["11", "12"]
    run(tmp_path / "state")
    assert AgentPass.objects.latest("id").sent == 0, "nothing changed"


def test_an_unknown_scheduler_is_reported(site: Site, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="c1"):
        run(tmp_path)


def test_a_stopped_postgresql_keeps_the_last_values_of_the_scheduler(
    connected: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's port is one where nothing listens."""
    fake = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(fake.folder))
    fake.jobs = {"11": {"user": "alice", "group": "physics"}}
    run(tmp_path / "state")
    values = fake.values()
    fake.forget_calls()

    def run_without_database() -> dict[str, Any]:
        connection.settings_dict = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
        table = open_table(str(tmp_path / "state"))
        return Agent(Services("c1"), Commands(), table, "head1", print).run_pass()

    with ThreadPoolExecutor(1) as thread:  # which has a connection of its own
        report = thread.submit(run_without_database).result()
    assert report["frozen"]["code"] == "server_unreachable"
    assert report["frozen"]["detail"].startswith("The database doesn't answer. The site is away since")
    assert (fake.values(), fake.calls("scontrol")) == (values, [])
    assert run(tmp_path / "state")


def test_an_agent_continues_from_memory_after_it_has_read_its_orders(
    connected: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(fake.folder))
    fake.jobs = {"11": {"user": "alice", "group": "physics"}}
    table = open_table(str(tmp_path / "state"))
    agent = Agent(Services("c1"), Commands(), table, "head1", print, clock=AT.timestamp)
    assert (agent.run_pass()["frozen"], agent.was_reported) == (None, True)
    fake.jobs = {**fake.jobs, "12": {"user": "alice", "group": "physics"}}

    def run_without_database() -> dict[str, Any]:
        connection.settings_dict = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
        return agent.run_pass()

    with ThreadPoolExecutor(1) as thread:  # which has a connection of its own
        report = thread.submit(run_without_database).result()
    assert (report["frozen"], agent.was_reported) == (None, False)
    assert fake.values()["12"] == fake.values()["11"]
