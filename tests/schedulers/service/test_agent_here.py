"""`manage.py agent run`: the agent beside the site carries factors to a scheduler of fake commands, and reports."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.schedulers.models import AgentPass, Scheduler
from apps.schedulers.queue_table import load_queue
from tests.agent.fakes import FakeScheduler
from tests.api.small_site import Site

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


def test_an_unknown_scheduler_is_named(site: Site, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="c1"):
        run(tmp_path)
