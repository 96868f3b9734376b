"""Passes over limits with a scheduler in this process: what it takes in part, late, or never, over days."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent import limit_journal as journal
from agent import limit_pass, limit_plan
from agent.limit_journal import INTENDED, SetsLimits
from agent.limit_pass import LimitPass
from agent.limit_plan import Switches
from agent.limits import Account, Accounts, Jobs, Settings, read_limit_order
from agent.records import Problem
from agent.state import Table
from tests.examples import first

ABOUT = {"kind": "slurm", "knob": "nice", "scheduler": "c1"}
HOUR_S = 3600.0
NAMES = ["physics", "hep", "bio", "chem", "geo", "math"]


class InProcess(SetsLimits):
    """Accounts below root, with one user each. lacks: settings that it doesn't take, and says nothing about."""

    def __init__(self, *names: str, busy: frozenset[str] = frozenset()) -> None:
        self.settings: dict[str, Settings] = {name: {} for name in ("root", *names)}
        self.busy = busy
        self.lacks: set[str] = set()
        self.problem: Problem | None = None
        self.refused: set[str] = set()
        self.code = "refused"  # of these
        self.log: list[tuple[str, Settings]] = []

    def read_accounts(self, cluster: str = "") -> Accounts:
        rows = {
            name: Account(name, "" if name == "root" else "root", dict(now), name != "root")
            for name, now in self.settings.items()
        }
        return Accounts("demo", rows)

    def read_account_jobs(self) -> Jobs:
        return Jobs(frozenset(), self.busy)

    def set_limit(self, cluster: str, account: str, settings: Settings) -> Problem | None:
        if self.problem is not None or account in self.refused:
            return self.problem or Problem(self.code, "no")
        self.log.append((account, settings))
        now = {**self.settings[account], **{key: text for key, text in settings.items() if key not in self.lacks}}
        self.settings[account] = {key: text for key, text in now.items() if text}
        return None


class Killed(BaseException):
    pass


class Host:
    """An agent's table, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.table, self.now = Table(str(folder)), 1_000_000.0
        self.minute = 0

    def run(
        self,
        scheduler: InProcess,
        *lines: dict[str, Any],
        dies_at: str = "",
        clock_differs_s: float = 0.0,
        **bounds: Any,
    ) -> dict[str, str]:
        """Codes by account after a pass with orders that the site computed now."""
        self.minute += 1
        document = {"format": 1, "as_of": str(self.minute), "lapse_s": 86_400, "percent_a_day": 100, "canary": None}
        order = read_limit_order({**document, "accounts": NAMES, "lines": list(lines), **bounds})
        assert order is not None

        def begin(step: str) -> None:
            if step == dies_at:
                raise Killed

        one = LimitPass(self.table, begin, lambda text: None, lambda: self.now)
        report = one.run(scheduler, order, Switches("on", False, True, clock_differs_s), ABOUT, sets=True)
        self.table.save()
        return {each.name: each.state.code for each in report.accounts}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def line(account: str, qos: str | None = None, **minutes: int) -> dict[str, Any]:
    return {"account": account, "grp_tres_mins": minutes, "qos": qos, "reason": "x", "since": "2026-11-20"}


def test_what_the_scheduler_takes_in_part_is_restored(host: Host) -> None:
    scheduler = InProcess(*NAMES)
    scheduler.lacks = {"qos"}
    assert host.run(scheduler, line("hep", "slow", cpu=0))["hep"] == "changed_meanwhile"
    assert scheduler.settings["hep"] == {"cpu": "0"}
    host.run(scheduler)
    assert scheduler.settings["hep"] == {}
    assert journal.entries(host.table) == {}


def test_what_the_scheduler_does_not_take_leaves_no_journal(host: Host) -> None:
    scheduler = InProcess(*NAMES)
    scheduler.lacks = {"cpu"}
    assert host.run(scheduler, line("hep", cpu=0))["hep"] == "refused"
    assert (journal.entries(host.table), journal.recent(host.table, host.now)) == ({}, {})


def test_a_limit_of_a_killed_agent_that_an_admin_removed_is_not_set_again(host: Host) -> None:
    scheduler = InProcess(*NAMES)
    with pytest.raises(Killed):
        host.run(scheduler, line("hep", cpu=0), dies_at="confirm limits")
    assert host.run(scheduler, line("hep", cpu=0))["hep"] == "set"
    scheduler.settings["hep"] = {}
    assert host.run(scheduler, line("hep", cpu=0))["hep"] == "changed_meanwhile"
    assert len(scheduler.log) == 1


def is_killed_before_sending(host: Host, scheduler: InProcess) -> None:
    with pytest.raises(Killed):
        host.run(scheduler, line("hep", cpu=0), dies_at="set limits")


def takes_too_long(host: Host, scheduler: InProcess) -> None:
    scheduler.problem = Problem("timeout", "60 s")
    assert host.run(scheduler, line("hep", cpu=0))["hep"] == "timeout"
    scheduler.problem = None


@pytest.mark.parametrize("fails", [is_killed_before_sending, takes_too_long])
def test_a_command_that_may_be_under_way_counts_for_a_day(host: Host, fails: Callable[[Host, InProcess], None]) -> None:
    """Within it, what appears is ours and goes; later, an administrator made it, and it stays."""
    scheduler = InProcess(*NAMES)
    fails(host, scheduler)
    assert host.run(scheduler)["hep"] == "free"
    assert journal.entries(host.table)["hep"].state == INTENDED
    scheduler.settings["hep"] = {"cpu": "0"}
    host.run(scheduler)
    assert scheduler.settings["hep"] == {}
    fails(host, scheduler)
    host.now += 24 * HOUR_S
    host.run(scheduler)
    scheduler.settings["hep"] = {"cpu": "0"}
    host.run(scheduler)
    assert scheduler.settings["hep"] == {"cpu": "0"}


@pytest.mark.parametrize("busy", [frozenset[str](), frozenset({"bio", "chem"})])
def test_an_account_that_an_admin_stopped_is_none_that_runs(host: Host, busy: frozenset[str]) -> None:
    """Its jobs wait for ever."""
    scheduler = InProcess("bio", "chem", busy=busy)
    scheduler.settings["chem"] = {"billing": "0"}
    codes = host.run(scheduler, line("bio", cpu=0))
    assert (codes["bio"], scheduler.settings["bio"]) == ("last_running", {})
    scheduler.settings["chem"] = {"billing": "10", "qos": "normal"}
    assert host.run(scheduler, line("bio", cpu=0))["bio"] == "set"


@pytest.mark.deep
def test_the_last_account_stays_free_pass_after_pass(host: Host) -> None:
    """Also as orders, jobs and accounts change, and limits are restored."""
    random_source = random.Random(5)
    scheduler = InProcess(*NAMES)
    for _ in range(300):
        host.now += HOUR_S
        scheduler.busy = frozenset(name for name in NAMES if random_source.random() < 0.4)
        limited_before = {name for name in NAMES if scheduler.settings[name]}
        host.run(scheduler, *(line(name, cpu=0) for name in NAMES if random_source.random() < 0.9))
        free = {name for name in NAMES if not scheduler.settings[name]}
        assert free, "all are limited"
        if scheduler.busy - limited_before:
            assert free & scheduler.busy, "none with jobs is left"


@pytest.mark.parametrize("percent", first(1, [34, 1, 50, 84, 100]))
def test_no_24_hours_have_more_accounts_than_their_part(host: Host, percent: int) -> None:
    """Also as limits come and go, agents are killed, and the clock is set back by hours."""
    random_source, scheduler = random.Random(percent), InProcess(*NAMES)
    began: list[tuple[float, str]] = []  # by time that passes
    passed = 0.0
    for _ in range(300):
        step = random_source.choice([0.1, 1.0, 5.0]) * HOUR_S
        passed += step
        host.now += step if random_source.random() < 0.9 else -3 * HOUR_S
        ordered = [line(name, cpu=0) for name in NAMES if random_source.random() < 0.5]
        dies_at = random_source.choice(["", "", "set limits", "confirm limits"])
        n_before = len(scheduler.log)
        try:
            host.run(scheduler, *ordered, dies_at=dies_at, percent_a_day=percent)
        except Killed:
            table = Table(host.table.folder)
            table.load()
            host.table = table
        began += [(passed, account) for account, settings in scheduler.log[n_before:] if settings["cpu"] == "0"]
    most = max(len(NAMES) * percent // 100, 1)
    for at, _ in began:
        assert len({name for other, name in began if 0 <= at - other < 24 * HOUR_S}) <= most
    assert began


@pytest.mark.parametrize("fails", ["refused", "timeout"])
def test_restores_that_fail_do_not_block_later_ones(host: Host, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    monkeypatch.setattr(limit_pass, "MOST_RESTORED", 2)
    scheduler = InProcess(*NAMES)
    host.run(scheduler, *(line(name, cpu=0) for name in ("bio", "chem", "geo", "hep", "math")))
    scheduler.refused, scheduler.code = {"bio", "chem"}, fails
    for _ in range(4):
        host.run(scheduler)
    assert {name for name, now in scheduler.settings.items() if now} == {"bio", "chem"}
    scheduler.refused = set()
    host.run(scheduler)
    assert not any(scheduler.settings.values())
    assert (journal.entries(host.table), "limits_not_restored" in host.table.facts) == ({}, False)


@pytest.mark.parametrize("fails", ["refused", "timeout"])
def test_limits_that_fail_do_not_block_later_ones(host: Host, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    monkeypatch.setattr(limit_plan, "MOST_SET", 2)
    scheduler = InProcess(*NAMES)
    scheduler.refused, scheduler.code = {"bio", "chem"}, fails
    lines = [line(name, cpu=0) for name in ("bio", "chem", "geo", "hep")]
    for _ in range(4):
        host.run(scheduler, *lines)
    assert {name for name, now in scheduler.settings.items() if now} == {"geo", "hep"}


def test_a_clock_a_day_ahead_sets_no_limit_and_the_day_counts_on(host: Host) -> None:
    """A tenth of the accounts a day stays a tenth, and the site hears of each limit: it refuses reports of tomorrow."""
    scheduler = InProcess(*NAMES)
    assert host.run(scheduler, line("bio", cpu=0), line("hep", cpu=0), percent_a_day=10)["hep"] == "later"
    host.now += 86_400
    found = host.run(scheduler, line("bio", cpu=0), line("hep", cpu=0), percent_a_day=10, clock_differs_s=-86_400.0)
    assert (found["bio"], found["hep"], scheduler.settings["hep"]) == ("set", "paused", {})
    host.run(scheduler, line("hep", cpu=0), percent_a_day=10, clock_differs_s=-86_400.0)
    assert scheduler.settings["bio"] == {}, "restoring needs no clock"
    host.now -= 86_400 - 60
    assert host.run(scheduler, line("hep", cpu=0), percent_a_day=10)["hep"] == "later"
    host.now += 86_400
    assert host.run(scheduler, line("hep", cpu=0), percent_a_day=10)["hep"] == "set"


def test_a_clock_ahead_forgets_no_command_that_may_be_under_way(host: Host) -> None:
    scheduler = InProcess(*NAMES)
    with pytest.raises(Killed):
        host.run(scheduler, line("hep", cpu=0), dies_at="set limits")
    host.now += 86_400
    host.run(scheduler, clock_differs_s=-86_400.0)
    assert set(journal.entries(host.table)) == {"hep"}
    scheduler.settings["hep"] = {"cpu": "0"}
    host.run(scheduler)
    assert scheduler.settings["hep"] == {}


def test_a_clock_set_back_or_ahead_neither_loses_nor_keeps_a_limit(host: Host) -> None:
    scheduler = InProcess(*NAMES)
    host.run(scheduler, line("hep", cpu=0), lapse_s=3600)
    one = LimitPass(host.table, lambda step: None, lambda text: None, lambda: host.now)
    host.now -= 30 * 24 * HOUR_S
    assert not one.silence_ends_it()
    host.now += HOUR_S - 1
    assert not one.silence_ends_it()
    host.now += 1
    assert one.silence_ends_it(), "an hour after the clock was set back"
    one.restore(scheduler, "lapsed")
    assert (scheduler.settings["hep"], one.has_set) == ({}, False)
