"""With the database away, schedulers still get priorities; when it is back, everything continues automatically."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.rest import Rest
from agent.state import open_table
from apps.cli.sample.grid import MONITORING, NAMESPACE, POLICY_SLUG
from apps.cli.stack import processes
from tests.agent.fakes import FakeScheduler
from tests.faults.conftest import FirstStart
from tests.faults.stack import Stack, eventually

pytestmark = [
    pytest.mark.timeout(420),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]


@pytest.fixture
def sample(first_start: FirstStart) -> Iterator[Stack]:
    stack = Stack(sample=True, settings={"FAIRSHARE_TICK_S": "5"}, like=first_start.var)
    try:
        stack.start()
        yield stack
    finally:
        stack.remove()


def ask(stack: Stack, token: str, path: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.port}/api/v1/policies/{POLICY_SLUG}/{path}",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def look_up(stack: Stack, token: str, account: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ask(stack, token, f"priorities?account={account}"))
    return answer


UNKNOWN = f"fsh_{'0' * 12}_{'0' * 64}"  # of the right form, and not an existing token
SESSION = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from apps.accounts.models import User
admin = User.objects.get(username="admin")
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = str(admin.pk), admin.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session.save()
print("key", session.session_key)
"""
TOKEN = """
from django.core.management import call_command
call_command("create_token", "--user", "admin", "--scope", "priorities:read")
"""


def sign_in(stack: Stack) -> str:
    """The cookie of a signed-in administrator."""
    return "sessionid=" + stack.run(SESSION).split("key ")[1].split()[0]


def status_of(stack: Stack, path: str, **headers: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def take_database_away(stack: Stack) -> None:
    """Its files are moved, so that the supervisor's attempts to start it fail until they are back."""
    (stack.var / "pg").rename(stack.var / "pg.away")
    for pid in stack.roles()["postgres"]:
        processes.send(pid, signal.SIGKILL)
    eventually(lambda: processes.working_in(stack.var / "pg.away", "postgres") == [], "no database process is left")


@pytest.mark.deep
@pytest.mark.fault("F3", "F25")
def test_priorities_are_served_from_memory_without_a_database(sample: Stack) -> None:
    token = sample.run(TOKEN).strip()
    cookie = sign_in(sample)
    page = f"policy/{POLICY_SLUG}/"
    assert status_of(sample, page, Cookie=cookie) == 200
    leaf = json.loads(ask(sample, token, "priorities/all").splitlines()[0])
    before = look_up(sample, token, leaf["account"])
    assert before["results"][0]["factor"] is not None

    take_database_away(sample)
    eventually(lambda: not sample.answers("readyz"), "/readyz says that there is no database")
    assert sample.answers("healthz")
    during = look_up(sample, token, leaf["account"])
    assert during["results"][0]["entry"] == before["results"][0]["entry"]
    assert during["snapshot"] >= before["snapshot"]
    assert status_of(sample, page, Cookie=cookie) == 503
    assert status_of(sample, "api/v1/policies", Cookie=cookie) == 503
    assert status_of(sample, f"api/v1/policies/{POLICY_SLUG}/priorities", Authorization=f"Bearer {UNKNOWN}") == 503
    aged = during["age_s"]
    eventually(lambda: look_up(sample, token, leaf["account"])["age_s"] > aged + 1, "the age of the answer grows")

    for pid in sample.roles()["web child"]:  # the next one starts without a database
        processes.send(pid, signal.SIGKILL)
    eventually(lambda: sample.answers("healthz"), "another web process answers")
    assert look_up(sample, token, leaf["account"])["results"][0]["entry"] == before["results"][0]["entry"]
    assert status_of(sample, f"api/v1/policies/{POLICY_SLUG}/priorities", Authorization=f"Bearer {UNKNOWN}") == 503

    (sample.var / "pg.away").rename(sample.var / "pg")
    sample.assert_works()
    eventually(
        lambda: look_up(sample, token, leaf["account"])["snapshot"] > during["snapshot"], "newer priorities arrive"
    )
    assert status_of(sample, page, Cookie=cookie) == 200


CONNECT = """
from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.contrib.schedulers.services import connect_scheduler
given = {"mode": "on", "namespace": NAMESPACE, "step": 1, "limits": {"unmapped_percent": 50}}
connect_scheduler(policy_slug=POLICY_SLUG, name="c9", settings=given, at=clock.now(), actor=COMMAND)
from django.core.management import call_command
call_command("create_token", "--user", "admin", "--scope", "priorities:read", "--scope", "schedulers")
"""


def stop_database(stack: Stack) -> None:
    """It accepts connections and answers nothing, as with a disk that hangs."""
    for pid in processes.working_in(stack.var / "pg", "postgres"):
        processes.send(pid, signal.SIGSTOP)


def continue_database(stack: Stack) -> None:
    for pid in processes.working_in(stack.var / "pg", "postgres"):
        processes.send(pid, signal.SIGCONT)


def bring_database_back(stack: Stack) -> None:
    (stack.var / "pg.away").rename(stack.var / "pg")


@pytest.mark.product
@pytest.mark.deep
@pytest.mark.parametrize(
    ("end", "begin"),
    [(take_database_away, bring_database_back), (stop_database, continue_database)],
    ids=["away", "hung"],
)
@pytest.mark.fault("F28")
def test_new_jobs_get_their_values_during_a_database_outage(
    sample: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Stack], None],
    begin: Callable[[Stack], None],
) -> None:
    names = f"NAMESPACE, POLICY_SLUG = {NAMESPACE!r}, {POLICY_SLUG!r}\n"
    token = sample.run(names + CONNECT).strip().splitlines()[-1]
    fake = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(fake.folder))
    fake.jobs = {"11": {"user": MONITORING.user_name, "group": MONITORING.group_name}}
    site = Rest(f"http://127.0.0.1:{sample.port}", "c9", token, timeout_s=10, patience_s=1)
    agent = Agent(site, Commands(), open_table(str(tmp_path / "state")), "head1", print)
    assert agent.run_pass()["frozen"] is None
    values = fake.values()
    assert values["11"] is not None

    end(sample)
    try:
        fake.jobs = {**fake.jobs, "12": {"user": MONITORING.user_name, "group": MONITORING.group_name}}
        began = time.monotonic()
        report = agent.run_pass()
        print(f"a pass during the outage took {time.monotonic() - began:.1f} s")
        assert (report["frozen"], agent.was_reported) == (None, False)
        assert fake.values()["12"] is not None, "orders and factors come from memory"
    finally:
        begin(sample)
    sample.assert_works()
    eventually(lambda: agent.run_pass()["frozen"] is None and agent.was_reported, "the agent follows again")
