"""Limits of accounts in a real Slurm: a project that is used up starts no job, and can again after hours were added."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.state import open_table
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import AuditEvent, User
from apps.contrib.allocations.rules.acting import act_on_rules
from apps.contrib.allocations.services import AllocationChange, AllocationTerms, change_allocation, create_allocation
from apps.contrib.allocations.services import tag_of as allocation_tag
from apps.contrib.schedulers import services
from apps.contrib.schedulers.limit_settings import approve_limits, change_limit_settings, request_limits
from apps.contrib.schedulers.limit_table import get_limit_table
from apps.contrib.schedulers.management.commands.agent import Services
from apps.contrib.schedulers.orders import tag_of
from apps.policies.services import change_settings
from apps.priorities.serving import store
from tests.agent.steps import ROOT, Passes
from tests.instants import AT
from tests.real_schedulers.slurm_site import SlurmSite, running_slurm
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(900)]
USERS = ("alice", "bob", "carol")
NAMED = ["physics", "biology", "chem"]


@pytest.fixture(scope="module")
def site(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """With what a restoring has to leave alone: limits and QOS of the site's own."""
    settings = {"AccountingStorageEnforce": "associations,limits,qos,safe", "PriorityWeightFairshare": "0"}
    with running_slurm(tmp_path_factory.mktemp("slurm"), users=USERS, settings=settings, release=release) as slurm:
        slurm.sacctmgr("add", "qos", "slow", "quick")
        slurm.add_tree(
            {"physics": (60, {"alice": 2, "bob": 1}), "biology": (40, {"carol": 1}), "chem": (1, {"bob": 1})}
        )
        slurm.sacctmgr("modify", "account", "physics", "set", "GrpTRESMins=billing=7000", "MaxJobs=50")
        slurm.sacctmgr("modify", "account", "chem", "set", "GrpTRESMins=cpu=600", "qos+=quick")
        yield slurm


def line(account: str, qos: str = "", **minutes: int) -> dict[str, Any]:
    return {"account": account, "grp_tres_mins": minutes, "qos": qos or None, "reason": "used up", "since": "x"}


def order(*lines: dict[str, Any], **more: Any) -> dict[str, Any]:
    bounds = {"lapse_s": 3600, "percent_a_day": 100, "canary": None, "accounts": NAMED}
    return {"format": 1, "as_of": "2026-11-20T06:00:00Z", "lines": list(lines), **bounds, **more}


class Host:
    """The host's agent; each pass is that of a process that has just started."""

    def __init__(self, folder: Path, slurm: SlurmSite) -> None:
        folder.mkdir()
        self.passes = Passes(folder, slurm.bin, {}, carries="limits", limit_order=order())

    def run(self, *lines: dict[str, Any], ends_at: str = "", **more: Any) -> dict[str, str]:
        """One pass; the code of each account."""
        bounds = {name: more.pop(name) for name in ("as_of", "percent_a_day", "lapse_s") if name in more}
        self.passes.order({}, carries="limits", limit_order=order(*lines, **bounds), **more)
        if ends_at:
            assert self.passes.run(ends_at) == -9
            return {}
        assert self.passes.run() == 0
        return {each["account"]: each["code"] for each in self.passes.report()["account_limits"]["accounts"]}

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "agent", *arguments, "--state", str(self.passes.state)]
        return subprocess.run(argv, env=self.passes.env(), cwd=ROOT, check=False, capture_output=True, text=True)

    def forget_contact(self) -> None:
        """The site's last order is two hours old."""
        path = self.passes.state / "table.json"
        table = json.loads(path.read_text())
        table["facts"]["limits_contact"]["seen_at"] -= 7200
        path.write_text(json.dumps(table))


@pytest.fixture
def host(site: SlurmSite, tmp_path: Path) -> Iterator[Host]:
    before = site.dump()
    made = Host(tmp_path / "host", site)
    yield made
    made.command("end-limits")
    for user in USERS:
        site.attempt("scancel", f"--user={user}")
    assert site.dump() == before, "restored exactly"


def wait_for(holds: Callable[[], bool], site: SlurmSite) -> None:
    ends = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < ends, site.run("squeue")
        time.sleep(0.5)


def submit_running(site: SlurmSite, user: str, account: str) -> str:
    """A job that runs; its number."""
    job = site.submit(user, account, "--time=15", seconds=600)
    wait_for(lambda: state_of(site, job)[0] == "RUNNING", site)
    return job


def state_of(site: SlurmSite, job: str) -> tuple[str, str]:
    found = {number: (state, reason) for number, state, reason in site.queue("%i", "%T", "%r")}
    return found.get(job, ("gone", ""))


def test_a_project_that_is_used_up_starts_no_job_until_hours_are_added(site: SlurmSite, host: Host) -> None:
    before = site.dump()
    running, _others = (submit_running(site, *who) for who in (("alice", "physics"), ("carol", "biology")))
    assert host.run(line("physics", cpu=0), mode="shadow")["physics"] == "would_set"
    assert site.dump() == before, "nothing in shadow"
    assert host.run(line("physics", cpu=0))["physics"] == "set"
    waiting = site.submit("bob", "physics", "--time=1", seconds=1)
    wait_for(lambda: state_of(site, waiting) == ("PENDING", "AssocGrpCPUMinutesLimit"), site)
    other = site.submit("carol", "biology", "--time=1", seconds=1)
    wait_for(lambda: state_of(site, other)[0] == "gone", site)
    assert state_of(site, running)[0] == "RUNNING", "a job that runs goes on"
    assert host.run()["physics"] == "lifted", "hours were added"
    wait_for(lambda: state_of(site, waiting)[0] in ("RUNNING", "gone"), site)
    assert site.dump() == before
    assert host.run()["physics"] == "free"


def test_a_qos_is_set_and_restored_limits(site: SlurmSite, host: Host) -> None:
    assert host.run(line("biology", qos="slow")) == {"physics": "free", "biology": "set", "chem": "free"}
    refused = site.attempt("sbatch", "--uid=carol", "--account=biology", "--qos=normal", "--wrap=true")
    assert "Invalid qos" in refused.stderr
    job = site.submit("carol", "biology", "--qos=slow", "--time=1")
    wait_for(lambda: state_of(site, job)[0] == "gone", site)


def test_limits_of_the_site_s_own_are_not_touched(site: SlurmSite, host: Host) -> None:
    before = site.dump()
    found = host.run(line("chem", cpu=0), line("physics", billing=0))
    assert (found["chem"], found["physics"]) == ("admin_limit", "admin_limit")
    assert host.run(line("chem", qos="slow"))["chem"] == "admin_limit"
    assert site.dump() == before


def test_the_last_account_that_runs_is_never_limited(site: SlurmSite, host: Host) -> None:
    submit_running(site, "carol", "biology")
    found = host.run(line("physics", cpu=0), line("biology", cpu=0))
    assert (found["physics"], found["biology"]) == ("set", "last_running")


def test_a_part_of_the_accounts_a_day_is_limited(site: SlurmSite, host: Host) -> None:
    found = host.run(line("physics", cpu=0), line("biology", cpu=0), percent_a_day=40)
    assert (found["physics"], found["biology"]) == ("set", "later")
    assert host.run(line("biology", cpu=0), percent_a_day=40) == {
        "physics": "lifted", "biology": "later", "chem": "free",
    }  # fmt: skip


@pytest.mark.parametrize("step", ["intend limits", "set limits", "confirm limits", "report"])
def test_a_killed_agent_goes_on_and_the_host_s_command_restores(site: SlurmSite, host: Host, step: str) -> None:
    before = site.dump()
    host.run(line("physics", cpu=0), ends_at=step)
    assert host.run(line("physics", cpu=0))["physics"] == "set"
    assert site.dump() != before
    host.run(ends_at="report" if step == "report" else "restore limits")
    done = host.command("end-limits")
    assert (done.returncode, site.dump()) == (0, before), done.stderr
    assert host.run(line("physics", cpu=0))["physics"] == "ended_on_host"
    assert host.command("end-limits", "--allow-again").returncode == 0
    assert host.run(line("physics", cpu=0))["physics"] == "set"


def test_limits_lapse_by_themselves(site: SlurmSite, host: Host) -> None:
    before = site.dump()
    assert host.run(line("physics", cpu=0))["physics"] == "set"
    host.forget_contact()
    assert host.run(line("physics", cpu=0))["physics"] == "lapsed"
    assert site.dump() == before


def test_the_host_ends_limits_while_slurmctld_is_down(site: SlurmSite, host: Host) -> None:
    before = site.dump()
    assert host.run(line("physics", cpu=0))["physics"] == "set"
    site.stop("slurmctld")
    done = host.command("end-limits")
    site.start("slurmctld")
    assert (done.returncode, site.dump()) == (0, before), done.stderr


def test_without_safe_an_account_with_running_jobs_waits(site: SlurmSite, host: Host) -> None:
    site.configure(AccountingStorageEnforce="associations,limits,qos")
    job, _others = (submit_running(site, *who) for who in (("alice", "physics"), ("carol", "biology")))
    assert host.run(line("physics", cpu=0))["physics"] == "jobs_running"
    site.run("scancel", job)
    wait_for(lambda: state_of(site, job)[0] == "gone", site)
    assert host.run(line("physics", cpu=0))["physics"] == "set"
    site.configure(AccountingStorageEnforce="associations,limits,qos,safe")


def test_sacctmgr_that_denies_is_reported_and_changes_nothing(site: SlurmSite, host: Host) -> None:
    """A wrapper runs the agent's changes as a user without rights."""
    before = site.dump()
    real = (site.bin / "sacctmgr").read_text()
    denied = real.replace("-- ", "--setuid 65534 -- ", 1) if "--setuid" not in real else real
    folder = host.passes.folder / "denying"
    folder.mkdir()
    for name in os.listdir(site.bin):
        (folder / name).write_text(denied if name == "sacctmgr" else (site.bin / name).read_text())
        (folder / name).chmod(0o755)
    host.passes.commands = folder
    host.passes.order({}, carries="limits", limit_order=order(line("physics", cpu=0)))
    assert host.passes.run() in (0, 1)
    codes = {each["account"]: each["code"] for each in host.passes.report()["account_limits"]["accounts"]}
    assert codes["physics"] == "denied"
    assert site.dump() == before


@pytest.mark.django_db
def test_a_rule_stops_a_project_and_hours_that_were_added_let_it_run(
    computed_site: Site, site: SlurmSite, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: allocation, rule, revision, orders, agent, Slurm; and back within one run of the rules."""
    store.poll()
    managers = [Actor(User.objects.create_superuser(name), "page") for name in ("owner", "second")]
    who: dict[str, Any] = {"name": "c1", "at": AT}
    settings = {"mode": "shadow", "carries": "limits", "namespace": "a"}
    services.connect_scheduler(policy_slug="grid", settings=settings, actor=SYSTEM, **who)

    def run_pass() -> dict[str, str]:
        table = open_table(str(tmp_path / "state"))
        agent = Agent(Services("c1"), Commands(), table, "head1", print, clock=AT.timestamp)
        with monkeypatch.context() as during:
            during.setenv("PATH", f"{site.bin}:{os.environ['PATH']}")
            document = agent.run_pass()
        assert (document["frozen"], agent.was_reported) == (None, True)
        return {each["account"]: each["code"] for each in document["account_limits"]["accounts"]}

    def tag() -> str:
        return get_limit_table(actor=SYSTEM, **who).tag

    assert run_pass() == {}, "no account is named"
    change_limit_settings(changes={"accounts": ["physics"]}, tag=tag(), actor=managers[0], **who)
    stop = {"levels": [{"percent": 100, "grp_tres_mins": {"cpu": 0}}]}
    rules = [{"name": "Stop", "kind": "thresholds", "mode": "on", "thresholds": stop}]
    change_settings(policy_slug="grid", settings={"rules": rules}, reason="x", at=AT, actor=SYSTEM)
    terms = AllocationTerms(amount=5.0, starts_on=date(2026, 1, 1), ends_on=date(2026, 12, 31), reason="x")
    physics = computed_site.uid("/physics")
    allocation = create_allocation(policy_slug="grid", entry_uid=physics, terms=terms, at=AT, actor=SYSTEM)
    act_on_rules(at=AT, zone=ZoneInfo("UTC"))
    submit_running(site, "carol", "biology")
    before = site.dump()
    assert run_pass() == {"physics": "would_set"}
    request_limits(tag=tag(), actor=managers[0], **who)
    approve_limits(tag=tag(), actor=managers[1], **who)
    scheduler = get_limit_table(actor=SYSTEM, **who).scheduler
    services.change_scheduler(tag=tag_of(scheduler), settings={"mode": "on"}, actor=managers[0], **who)
    assert run_pass() == {"physics": "set"}
    waiting = site.submit("alice", "physics", "--time=1", seconds=1)
    wait_for(lambda: state_of(site, waiting) == ("PENDING", "AssocGrpCPUMinutesLimit"), site)
    (row,) = get_limit_table(actor=SYSTEM, **who).rows
    assert (row.state, row.wanted, row.path) == ("set", "cpu=0", "/physics")
    assert row.reason == "Stop: use = U / A · 100"

    change = AllocationChange(amount=500.0, reason="More hours")
    allocation.refresh_from_db()
    about = {"policy_slug": "grid", "allocation_uid": allocation.uid, "tag": allocation_tag(allocation)}
    change_allocation(**about, change=change, at=AT, actor=SYSTEM)  # type: ignore[arg-type]
    act_on_rules(at=AT + timedelta(minutes=1), zone=ZoneInfo("UTC"))
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=1)).isoformat())
    assert run_pass() == {"physics": "lifted"}
    wait_for(lambda: state_of(site, waiting)[0] in ("RUNNING", "gone"), site)
    assert site.dump() == before
    verbs = AuditEvent.objects.filter(verb__startswith="scheduler.limits_").values_list("verb", flat=True)
    assert [verb.rpartition("_")[2] for verb in verbs] == ["changed", "requested", "approved", "set", "restored"]
