"""Schedulers from a terminal: the operator's commands, and `fairshare why JOB` for own jobs."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.contrib.schedulers.models import Scheduler
from tests.contrib.schedulers.reports import job, report
from tests.rest_site import Caller
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_a_scheduler_is_managed_by_commands(site: Site) -> None:
    given = ("--set", "mode=shadow", "--set", "partitions=a,b")
    run("scheduler", "add", "c9", "--policy", "grid", "--kind", "slurm", *given)
    run("scheduler", "set", "c9", "weight=5000", "calls_per_s=3", "namespace=a")
    shown: dict[str, Any] = json.loads(run("scheduler", "show", "--json", "c9"))
    assert (shown["mode"], shown["weight"], shown["partitions"]) == ("shadow", 5000, ["a", "b"])
    assert (shown["limits"]["calls_per_s"], shown["state"], shown["revision"]) == (3, "new", 2)
    for word, columns in (("pause", (True, False)), ("reset-values", (True, True)), ("resume", (False, False))):
        run("scheduler", word, "c9")
        found = Scheduler.objects.get(name="c9")
        assert (found.is_paused, found.is_reset_requested) == columns
    with pytest.raises(CommandError, match="not checked yet"):
        run("scheduler", "check", "c9")
    with pytest.raises(CommandError, match="typo"):
        run("scheduler", "set", "c9", "typo=1")
    with pytest.raises(CommandError, match="weight"):
        run("scheduler", "set", "c9", "weight=much")
    assert run("scheduler", "list").split()[:4] == ["c9", "slurm", "grid", "shadow"]
    run("scheduler", "remove", "--reason", "moved", "c9")
    assert not Scheduler.objects.exists()


def test_errors_found_by_the_agent_give_check_an_exit_status(agent: Caller) -> None:
    check = {"code": "double_counting", "severity": "error", "found": "PriorityWeightFairshare=9", "remedy": "Set 0"}
    agent.post("schedulers/c1/passes", report(checks=[check]))
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("scheduler", "check", "c1", stdout=out)
    assert "Set 0" in out.getvalue()


def test_why_names_reason_terms_and_jobs_ahead(agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report(queue=[job("101", site=10), job("201", "bob", site=60)]))
    found = json.loads(run("why", "101", "--json"))
    assert (found["ahead"], found["by_fairshare"], found["reason"]["key"]) == (1, 1, "priority")
    assert "/physics" in run("why", "101")
    with pytest.raises(CommandError):
        run("why", "999")
