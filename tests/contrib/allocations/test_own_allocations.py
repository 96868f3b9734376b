"""Allocations that a person uses, by REST and in the terminal: each unit by itself, as on the board."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.mapping.permissions import load_visibility
from apps.policies.services import change_settings
from tests.rest_site import Caller
from tests.small_site import Site
from tests.terminal.conftest import Terminal, alice, terminal
from tests.worlds import fresh_process  # noqa: F401 - fixture

__all__ = ["alice", "terminal"]

DAY = timedelta(days=1)
GPU = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}


def allocate(site: Site, path: str, amount: float, unit: str = "core-h", days: int = 50) -> None:
    today = site.at.date()
    create_allocation(
        policy_slug="grid",
        entry_uid=site.uid(path),
        terms=AllocationTerms(
            starts_on=today - 50 * DAY, ends_on=today + days * DAY, amount=amount, unit=unit, reason="test"
        ),
        at=site.at,
        actor=Actor(user=site.admin, via="web"),
        visibility=load_visibility,
    )


@pytest.fixture
def two_units(computed_site: Site) -> Site:
    """`/physics` has core-hours and GPU-hours side by side, and alice core-hours of her own."""
    site = computed_site
    change_settings(policy_slug="grid", settings={"units": [GPU]}, reason="x", at=site.at, actor=SYSTEM)
    allocate(site, "/physics", 1_000)
    allocate(site, "/physics", 64, "GPU-h", days=20)
    allocate(site, "/physics/alice", 5)
    allocate(site, "/biology", 77)
    return site


def test_own_entries_and_those_above_are_listed_in_each_unit(two_units: Site) -> None:
    mine = Caller(token=two_units.token("self:read", user=two_units.alice)).get("me/allocations").json()["results"]
    seen = [(each["row"]["path"], each["unit"], each["row"]["allocated"], each["has_role"]) for each in mine]
    assert seen == [
        ("/physics", "core-h", 1_000, False),
        ("/physics", "GPU-h", 64, False),
        ("/physics/alice", "core-h", 5, False),
    ]
    assert "/biology" not in json.dumps(mine)
    board = Caller(user=two_units.admin).get("policies/grid/allocations/board?of=/physics").json()
    own, alice_row = mine[0]["row"], mine[2]["row"]
    assert {name: board["own"][name] for name in own} == own
    assert board["results"] == [alice_row]


def test_other_policies_and_tokens_of_another_scope_get_nothing(two_units: Site) -> None:
    own = Caller(token=two_units.token("self:read", user=two_units.alice))
    assert own.get("me/allocations?policy=nothing").json() == {"results": [], "next": None}
    assert Caller(token=two_units.token("priorities:read")).get("me/allocations").status_code == 403
    assert Caller().get("me/allocations").status_code == 401


def test_more_allocations_cost_no_query_more(two_units: Site) -> None:
    caller = Caller(user=two_units.alice)

    def n_queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            caller.get("me/allocations")
        return len(captured)

    n_queries()
    before = n_queries()
    for days in range(51, 60):
        allocate(two_units, "/physics/alice", 5, days=days)
    assert n_queries() <= before + 1


@pytest.mark.usefixtures("two_units")
def test_the_terminal_shows_what_is_left_of_each(terminal: Terminal, alice: str) -> None:
    listed = terminal.run("allocations", token=alice)
    assert (listed.status, listed.err) == (0, "")
    lines = [line.split() for line in listed.out.splitlines() if line.startswith("/")]
    assert [(cells[0], cells[4]) for cells in lines] == [
        ("/physics", "core-h"),
        ("/physics", "GPU-h"),
        ("/physics/alice", "core-h"),
    ]
    today = terminal.site.at.date()
    assert lines[0][1:6] == ["7.0", "1,000", "993", "core-h", str(today + 50 * DAY)]
    assert lines[1][2:6] == ["64", "64", "GPU-h", str(today + 20 * DAY)]
    assert all(len(line) <= 80 for line in listed.out.splitlines())
    in_me = terminal.run("me", token=alice).out
    assert in_me.endswith("\n".join(line for line in listed.out.splitlines() if line.startswith(("entry", "/"))) + "\n")
    answer = json.loads(terminal.run("allocations", "--json", token=alice).out)
    assert answer == Caller(token=alice).get("me/allocations").json()


@pytest.mark.usefixtures("two_units")
def test_the_terminal_shows_a_group_with_all_below_it(terminal: Terminal, alice: str) -> None:
    group = terminal.run("report", "/physics", token=alice)
    assert (group.status, group.err) == (0, "")
    assert [line.split()[0] for line in group.out.splitlines() if line.startswith("/")] == [
        "/physics",
        "/physics/alice",
    ]
    assert "can still be allocated until" in group.out
    gpu = terminal.run("report", "/physics", "--unit", "GPU-h", token=alice)
    assert "64" in gpu.out
    assert terminal.run("report", "/physics", "--unit", "TPU-h", token=alice).status == 2
    assert terminal.run("report", "/nowhere", token=alice).status == 1
    for command in ("allocations", "report"):
        assert terminal.run(command, "--at", "2026-01-01", token=alice).status == 2
    former = terminal.run("allocations", "/physics", token=alice)
    assert (former.status, former.out) == (0, group.out)
    assert former.err == "fairshare: `allocations` has become `fairshare report`.\n"


def test_without_allocations_the_terminal_says_so(terminal: Terminal, alice: str) -> None:
    assert terminal.run("allocations", token=alice).out == "None of your entries has an allocation.\n"
    assert "Allocations" not in terminal.run("me", token=alice).out
