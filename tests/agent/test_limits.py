"""Limits that the agent sets: only within the owner's bounds, and restored exactly from the host's own journal."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from agent.limit_plan import Switches, make_limit_plan
from agent.limits import Account, Accounts, Jobs, limit_argv, parse_accounts, read_limit_order
from agent.records import ServerFailure, Unreadable
from tests.agent.fakes import Place

ACCOUNTS: dict[str, tuple[str, dict[str, str], int]] = {
    "root": ("", {"qos": "normal"}, 1),
    "physics": ("root", {}, 2),
    "hep": ("physics", {"billing": "7"}, 1),
    "bio": ("root", {}, 1),
    "chem": ("root", {"cpu": "1000"}, 1),
}
BEFORE = {name: settings for name, (_, settings, _n) in ACCOUNTS.items() if settings}
SAFE = "AccountingStorageEnforce = associations,limits,qos,safe\n"


def line(account: str, qos: str = "", **minutes: int) -> dict[str, Any]:
    about = {"reason": "All 500 core-hours are used.", "since": "2026-11-20T06:00:00Z"}
    return {"account": account, "grp_tres_mins": minutes, "qos": qos or None, **about}


def order(*lines: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = ["physics", "hep", "bio", "chem", "gone"]
    bounds = {"lapse_s": 3600, "percent_a_day": 100, "canary": None, "accounts": named}
    return {"format": 1, "as_of": "2026-11-20T06:00:00Z", "lines": list(lines), **bounds, **more}


@pytest.fixture
def limiting(place: Place) -> Place:
    config = place.scheduler.folder / "config.txt"
    config.write_text(config.read_text().replace("AccountingStorageEnforce = associations,limits\n", SAFE))
    place.scheduler.have_accounts(ACCOUNTS)
    place.scheduler.shares = {"physics//": "60"}
    place.scheduler.refuse()
    place.site.order(carries="limits", limit_order=order(line("hep", cpu=0)))
    return place


def codes(place: Place) -> dict[str, str]:
    reported = place.site.reports[-1]["account_limits"]
    return {each["account"]: each["code"] for each in reported["accounts"]}


def restored(place: Place) -> dict[str, tuple[str, str]]:
    return {
        each["account"]: (each["cause"], each["code"]) for each in place.site.reports[-1].get("restored_limits", [])
    }


def sets(place: Place) -> list[list[str]]:
    return place.scheduler.calls("sacctmgr", "--immediate")


def test_a_limit_is_set_kept_and_restored_limits_exactly(limiting: Place) -> None:
    assert limiting.run().returncode == 0
    assert limiting.scheduler.limits == {**BEFORE, "hep": {"billing": "7", "cpu": "0"}}
    assert codes(limiting) == {"physics": "free", "hep": "set", "bio": "free", "chem": "free", "gone": "missing"}
    (reported,) = [each for each in limiting.site.reports[-1]["account_limits"]["accounts"] if each["ours"]]
    assert (reported["before"], reported["ours"]) == ({"cpu": ""}, {"cpu": "0"})
    assert limiting.scheduler.calls("scontrol", "update") == []
    limiting.scheduler.forget_calls()
    limiting.run()
    assert (codes(limiting)["hep"], sets(limiting)) == ("set", []), "it is set once"
    limiting.site.order(limit_order=order())
    limiting.run()
    assert limiting.scheduler.limits == BEFORE
    assert (codes(limiting)["hep"], restored(limiting)) == ("lifted", {"hep": ("lifted", "done")})
    limiting.run()
    assert (codes(limiting)["hep"], restored(limiting)) == ("free", {})


@pytest.mark.parametrize("mode", ["shadow", "canary"])
def test_nothing_is_set_in_shadow_or_outside_the_canary(limiting: Place, mode: str) -> None:
    lines = order(line("hep", cpu=0), line("bio", qos="slow"), canary="bio")
    limiting.site.order(mode=mode, limit_order=lines)
    limiting.run()
    assert codes(limiting)["hep"] == "would_set"
    assert codes(limiting)["bio"] == {"shadow": "would_set", "canary": "set"}[mode]
    assert limiting.scheduler.limits == {**BEFORE, **({} if mode == "shadow" else {"bio": {"qos": "slow"}})}
    assert limiting.run("run", "--dry-run").returncode == 0


@pytest.mark.parametrize(
    "change", [{"mode": "shadow"}, {"mode": "off"}, {"reset_values": True}, {"carries": "priorities"}]
)
def test_other_orders_restore_every_limit(limiting: Place, change: dict[str, Any]) -> None:
    limiting.run()
    limiting.site.order(**change)
    limiting.run()
    assert limiting.scheduler.limits == BEFORE
    assert restored(limiting)["hep"][1] == "done"


def test_a_pause_sets_nothing_and_still_restores(limiting: Place) -> None:
    limiting.run()
    limiting.site.order(paused=True, limit_order=order(line("bio", cpu=0)))
    limiting.run()
    assert limiting.scheduler.limits == BEFORE
    assert codes(limiting)["bio"] == "paused"


def test_another_limit_of_an_account_replaces_the_former_one(limiting: Place) -> None:
    limiting.run()
    limiting.site.order(limit_order=order(line("hep", qos="slow")))
    limiting.run()
    limiting.run()
    assert limiting.scheduler.limits == {**BEFORE, "hep": {"billing": "7", "qos": "slow"}}
    assert limiting.run("reset-values").returncode == 0
    assert limiting.scheduler.limits == BEFORE


def test_what_an_admin_set_is_never_overwritten(limiting: Place) -> None:
    limiting.site.order(limit_order=order(line("chem", cpu=0), line("hep", billing=0), line("gone", cpu=0)))
    limiting.run()
    assert limiting.scheduler.limits == BEFORE
    found = codes(limiting)
    assert (found["chem"], found["hep"], found["gone"]) == ("admin_limit", "admin_limit", "missing")


def test_what_an_admin_changed_since_is_left_alone(limiting: Place) -> None:
    limiting.run()
    accounts = {**ACCOUNTS, "hep": ("physics", {"billing": "7", "cpu": "50"}, 1)}
    limiting.scheduler.have_accounts(accounts)
    limiting.scheduler.forget_calls()
    limiting.run()
    assert (codes(limiting)["hep"], sets(limiting)) == ("changed_meanwhile", [])
    limiting.site.order(limit_order=order())
    limiting.run()
    assert restored(limiting) == {"hep": ("lifted", "changed_meanwhile")}
    assert limiting.scheduler.limits["hep"] == {"billing": "7", "cpu": "50"}


def test_a_limit_that_an_admin_removed_is_not_set_again(limiting: Place) -> None:
    limiting.run()
    limiting.scheduler.have_accounts(ACCOUNTS)
    limiting.scheduler.forget_calls()
    limiting.run()
    assert (codes(limiting)["hep"], sets(limiting)) == ("changed_meanwhile", [])


def test_a_refusal_is_reported_and_leaves_no_journal(limiting: Place) -> None:
    limiting.scheduler.refuse(hep="Error with request: Access/permission denied")
    limiting.site.order(limit_order=order(line("hep", cpu=0), line("bio", cpu=0)))
    assert limiting.run().returncode == 1
    assert (codes(limiting)["hep"], codes(limiting)["bio"]) == ("denied", "denied"), "the next would fail as well"
    assert limiting.scheduler.limits == BEFORE
    assert "limits" not in limiting.table()["facts"]
    limiting.scheduler.refuse()
    assert limiting.run().returncode == 0
    assert codes(limiting)["bio"] == "set"


def test_nothing_is_set_while_the_configuration_has_an_error(limiting: Place) -> None:
    config = limiting.scheduler.folder / "config.txt"
    config.write_text(config.read_text().replace(SAFE, "AccountingStorageEnforce = associations\n"))
    limiting.run()
    assert (codes(limiting)["hep"], limiting.scheduler.limits) == ("paused", BEFORE)


# show config, show assoc (shares), squeue, sprio, wopl, squeue, set, wopl, wopl
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(5, 10))
def test_an_agent_that_is_killed_in_a_pass_goes_on_and_restores(limiting: Place, at: int, when: str) -> None:
    limiting.scheduler.kill_caller(at, when)
    assert limiting.run().returncode == -9
    assert limiting.run().returncode == 0
    assert limiting.scheduler.limits == {**BEFORE, "hep": {"billing": "7", "cpu": "0"}}
    assert codes(limiting)["hep"] == "set"
    limiting.scheduler.forget_calls()
    limiting.scheduler.kill_caller(at, when)
    limiting.site.order(limit_order=order())
    limiting.run()
    (limiting.scheduler.folder / "kill").unlink()
    assert limiting.run().returncode == 0
    assert limiting.scheduler.limits == BEFORE


@pytest.mark.parametrize("at", range(5, 10))
def test_the_host_ends_what_a_killed_agent_left(limiting: Place, at: int) -> None:
    limiting.scheduler.kill_caller(at, "after")
    assert limiting.run().returncode == -9
    assert limiting.run("end-limits").returncode == 0
    assert limiting.scheduler.limits == BEFORE


def test_one_command_on_the_host_ends_limits_beside_a_running_agent(limiting: Place) -> None:
    limiting.run()
    limiting.site.close()
    import fcntl

    with (limiting.state / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the running agent has it
        done = limiting.run("end-limits")
    assert (done.returncode, limiting.scheduler.limits) == (0, BEFORE), done.stderr
    assert "Limit of hep: done (ended_on_host)." in done.stdout
    assert "0 left" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_ends_limits_of_an_agent_that_is_another_user(limiting: Place) -> None:
    """Its table stays its own, so that it can still read it."""
    limiting.run()
    nobody = 65534
    for path in (limiting.state, *limiting.state.iterdir()):
        os.chown(path, nobody, nobody)
    assert limiting.run("end-limits").returncode == 0
    assert limiting.scheduler.limits == BEFORE
    assert {path.stat().st_uid for path in limiting.state.iterdir()} == {nobody}


def test_ended_limits_stay_ended_until_the_host_allows_them(limiting: Place) -> None:
    limiting.run()
    assert limiting.run("end-limits").returncode == 0
    limiting.scheduler.forget_calls()
    limiting.run()
    assert (codes(limiting)["hep"], sets(limiting)) == ("ended_on_host", [])
    assert restored(limiting) == {"hep": ("ended_on_host", "done")}
    assert limiting.site.reports[-1]["account_limits"]["ended_at"] is not None
    assert "ended on this host" in limiting.run("status").stdout
    assert "may set limits again" in limiting.run("end-limits", "--allow-again").stdout
    limiting.run()
    assert (codes(limiting)["hep"], limiting.scheduler.limits["hep"]["cpu"]) == ("set", "0")


def test_a_damaged_table_is_reported_by_the_command_of_the_host(limiting: Place) -> None:
    limiting.run()
    (limiting.state / "table.json").write_text("{")
    done = limiting.run("end-limits")
    assert done.returncode == 2
    assert "the commands that undo it" in done.stderr
    limiting.run()
    assert codes(limiting)["hep"] == "ended_on_host", "the agent is stopped nevertheless"


def test_limits_are_restored_where_jobs_cannot_be_listed(limiting: Place) -> None:
    limiting.run()
    limiting.scheduler.answer("squeue", status=1, err="slurm_load_jobs error: Unable to contact slurm controller")
    limiting.site.order(limit_order=order(line("bio", cpu=0)))
    assert limiting.run().returncode == 1
    assert limiting.scheduler.limits == BEFORE
    assert (codes(limiting)["hep"], codes(limiting)["bio"]) == ("lifted", "paused")


def test_the_host_ends_limits_without_the_controller(limiting: Place) -> None:
    limiting.run()
    limiting.scheduler.answer("scontrol", status=1, err="Unable to contact slurm controller")
    assert limiting.run("end-limits").returncode == 0
    assert limiting.scheduler.limits == BEFORE


def silent_for(place: Place, seconds: float) -> None:
    """Move the journal's last contact into the past."""
    table = place.table()
    table["facts"]["limits_contact"]["seen_at"] = time.time() - seconds
    (place.state / "table.json").write_text(json.dumps(table))


def test_limits_lapse_where_the_site_is_silent_for_too_long(limiting: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.command_line import main

    limiting.run()
    limiting.site.close()
    monkeypatch.setenv("PATH", f"{limiting.scheduler.folder}:{os.environ['PATH']}")
    monkeypatch.setattr("agent.rest.WAITS_S", ())  # it is away at each try
    silent_for(limiting, 3500)
    assert main(limiting.arguments("run", "--once")) == 1
    assert limiting.scheduler.limits != BEFORE
    silent_for(limiting, 3601)
    assert main(limiting.arguments("run", "--once")) == 1
    assert limiting.scheduler.limits == BEFORE


def test_orders_that_the_site_did_not_compute_anew_lapse_too(limiting: Place) -> None:
    """A site whose database is down answers with its last orders."""
    limiting.run()
    silent_for(limiting, 3601)
    limiting.run()
    assert limiting.scheduler.limits == BEFORE
    assert (codes(limiting)["hep"], restored(limiting)) == ("lapsed", {"hep": ("lapsed", "done")})
    limiting.run()
    assert codes(limiting)["hep"] == "lapsed", "not set again from the same orders"
    limiting.site.order(limit_order=order(line("hep", cpu=0), as_of="2026-11-20T08:00:00Z"))
    limiting.run()
    assert codes(limiting)["hep"] == "set"


def test_limits_lapse_where_the_site_sends_orders_without_limits(limiting: Place) -> None:
    """As a site of a former release does."""
    limiting.run()
    limiting.site.order(limit_order=None)
    limiting.run()
    assert limiting.scheduler.limits != BEFORE
    silent_for(limiting, 3601)
    limiting.run()
    assert (limiting.scheduler.limits, restored(limiting)) == (BEFORE, {"hep": ("lapsed", "done")})


def test_a_qos_is_named_as_slurm_lists_it(limiting: Place) -> None:
    limiting.site.order(limit_order=order(line("hep", qos="Slow")))
    limiting.run()
    assert (codes(limiting)["hep"], limiting.scheduler.limits["hep"]["qos"]) == ("set", "slow")
    limiting.site.order(limit_order=order())
    limiting.run()
    assert limiting.scheduler.limits == BEFORE


def test_a_limit_stays_in_the_journal_while_no_account_is_listed(limiting: Place) -> None:
    """With PrivateData, Slurm lists nothing, without an error, to an agent whose right was removed."""
    limiting.run()
    limiting.scheduler.have_accounts({})
    limiting.site.order(limit_order=order())
    assert limiting.run().returncode == 1
    assert "operator rights" in limiting.run("end-limits").stderr
    limiting.scheduler.have_accounts({**ACCOUNTS, "hep": ("physics", {"billing": "7", "cpu": "0"}, 1)})
    assert limiting.run("end-limits").returncode == 0
    assert limiting.scheduler.limits == BEFORE


def test_a_limit_is_not_set_if_the_journal_cannot_be_written(limiting: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.command_line import main

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("PATH", f"{limiting.scheduler.folder}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "fsync", full)
    assert main(limiting.arguments("run", "--once")) == 1
    assert sets(limiting) == []


# --- The plan
def accounts(*names: str, parent: str = "root") -> Accounts:
    return Accounts("demo", {name: Account(name, parent, {}, True) for name in names})


def planned(document: dict[str, Any], jobs: Jobs, *recent: str, spares: bool = True) -> dict[str, str]:
    found = read_limit_order(document)
    assert found is not None
    there = accounts("physics", "bio", "chem", "geo")
    plan = make_limit_plan(found, Switches("on", False, spares), there, jobs, {}, recent)
    assert [each.account for each in plan.to_set] == [n for n, s in plan.states.items() if s.code == "setting"]
    return {name: state.code for name, state in plan.states.items()}


NAMED = ["physics", "bio", "chem", "geo"]
ALL = [line(name, cpu=0) for name in NAMED]
NONE, IDLE = frozenset[str](), Jobs(frozenset(), frozenset())


def test_the_last_account_that_runs_is_never_limited() -> None:
    everything = order(*ALL, accounts=NAMED)
    assert list(planned(everything, IDLE).values()) == ["setting", "setting", "setting", "last_running"]
    busy = Jobs(NONE, frozenset({"physics", "chem"}))
    assert planned(everything, busy) == dict(physics="setting", bio="setting", chem="last_running", geo="setting")


def test_a_part_of_the_accounts_a_day_gets_a_limit() -> None:
    half = order(*ALL, accounts=NAMED, percent_a_day=50)
    assert list(planned(half, IDLE).values()) == ["setting", "setting", "later", "later"]
    assert list(planned(half, IDLE, "geo").values()) == ["setting", "later", "later", "setting"]
    assert list(planned({**half, "percent_a_day": 10}, IDLE).values())[:2] == ["setting", "later"]
    assert set(planned({**half, "percent_a_day": 0}, IDLE).values()) == {"later"}


def test_only_accounts_that_the_owner_named_are_limited() -> None:
    assert planned(order(*ALL[:2], accounts=["bio"]), IDLE) == {"physics": "not_named", "bio": "setting"}


def test_running_jobs_are_not_ended() -> None:
    busy = Jobs(frozenset({"physics"}), frozenset({"physics", "bio"}))
    lines = order(line("physics", cpu=0), accounts=NAMED)
    assert planned(lines, busy, spares=False) == {"physics": "jobs_running"}
    assert planned(lines, busy) == {"physics": "setting"}
    assert planned(order(line("physics", qos="slow"), accounts=NAMED), busy, spares=False) == {"physics": "setting"}


def test_minutes_are_listed_with_units_of_memory_and_names_of_licenses() -> None:
    minutes = "cpu=18446744073709551614,bb/cray=3M,license/matlab@south=7,mem=1000M,gres/gpu:a100=5"
    found = parse_accounts(f"demo|root|||||\ndemo|hep|||root|{minutes}|\ndemo|bio|||root|mem=2G|\n", "demo")
    assert found.rows["hep"].settings == {
        **{"cpu": "18446744073709551614", "bb/cray": "3", "license/matlab@south": "7", "mem": "1000"},
        "gres/gpu:a100": "5",
    }
    assert found.rows["bio"].settings == {"mem": "2048"}


def test_accounts_are_listed_with_their_own_limits() -> None:
    text = "demo|root|||||normal\ndemo|hep|||physics|billing=7,gres/gpu=3|a,b\ndemo|hep|ann|||cpu=9|\nx|hep|||root||\n"
    found = parse_accounts(text, "demo")
    assert found.rows["hep"] == Account("hep", "physics", {"billing": "7", "gres/gpu": "3", "qos": "a,b"}, True)
    assert found.rows["root"].has_users is False
    with pytest.raises(Unreadable, match="root"):
        parse_accounts("", "demo")
    for bad in ("demo|hep|||root\n", "demo|hep|||root|cpu=x|\n", "demo|hep|||root|cpu|\n"):
        with pytest.raises(Unreadable):
            parse_accounts(bad, "demo")


@pytest.mark.parametrize(
    "settings", [{}, {"cpu;rm": "0"}, {"cpu": "0 adminlevel=x"}, {"qos": "a b"}, {"qos": "a,b"}, {"cpu": "-5"}]
)
def test_unsafe_settings_reach_no_command(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"can.t go into a command"):
        limit_argv("demo", "physics", settings)
    with pytest.raises(ValueError, match=r"can.t go into a command"):
        limit_argv("demo", "physics set adminlevel=x", {"cpu": "0"})


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"lapse_s": 1},
        {"percent_a_day": 101},
        {"lines": [line("hep")]},
        {"lines": [line("hep", cpu=-1)]},
        {"lines": [line("hep", cpu=0), line("hep", cpu=1)]},
        {"lines": [{**line("hep"), "grp_tres_mins": {"cpu=0 x": 1}}]},
        {"accounts": None},
    ],
)
def test_an_invalid_order_of_limits_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(ServerFailure):
        read_limit_order({**order(line("hep", cpu=0)), **change})
