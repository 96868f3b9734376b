"""`fairshare-callout quota` against a live site: what is left of core-hours."""

from __future__ import annotations

import json
from datetime import date

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.mapping.permissions import load_visibility
from apps.policies.services import change_settings
from tests.terminal.conftest import Terminal, terminal
from tests.terminal.test_callout import DONE, REFUSED
from tests.terminal.test_callout_live import run

__all__ = ["terminal"]


@pytest.mark.paper("4.24")
def test_quota_of_a_group_and_its_descendants(terminal: Terminal) -> None:
    site = terminal.site
    year = site.at.year
    create_allocation(
        policy_slug="grid",
        entry_uid=site.uid("/physics"),
        terms=AllocationTerms(
            starts_on=date(year - 1, 1, 1), ends_on=date(year + 5, 12, 31), amount=1000.0, reason="test"
        ),
        at=site.at,
        actor=Actor(user=site.admin, via="web"),
        visibility=load_visibility,
    )
    terminal.keep(site.token("priorities:read", "policies:read"))
    for group in ("/physics", "/physics/alice"):
        status, out, err = run(terminal, "quota", group, "--format", "json")
        assert (status, err) == (DONE, "")
        found = json.loads(out)
        assert (found["entry"], found["allocated_core_h"], found["delivered_core_h"]) == ("/physics", 1000.0, 7.0)
        assert (found["remaining_core_h"], found["remaining"], found["unit"]) == (993.0, 993.0, "core-h")
    assert run(terminal, "quota", "/biology")[:2] == (DONE, "-\n")
    assert run(terminal, "quota", "/nobody")[0] == REFUSED


def test_quota_in_a_unit_of_the_policy(terminal: Terminal) -> None:
    site = terminal.site
    gpu = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}
    change_settings(policy_slug="grid", settings={"units": [gpu]}, reason="x", at=site.at, actor=SYSTEM)
    days = {"starts_on": date(site.at.year - 1, 1, 1), "ends_on": date(site.at.year + 5, 12, 31)}
    create_allocation(
        policy_slug="grid",
        entry_uid=site.uid("/physics"),
        terms=AllocationTerms(amount=64.0, unit="GPU-h", reason="test", **days),
        at=site.at,
        actor=Actor(user=site.admin, via="web"),
        visibility=load_visibility,
    )
    terminal.keep(site.token("priorities:read", "policies:read"))
    status, out, err = run(terminal, "quota", "/physics", "--unit", "GPU-h", "--format", "json")
    assert (status, err) == (DONE, "")
    shown = json.loads(out)
    assert (shown["unit"], shown["allocated"], shown["delivered"], shown["held"]) == ("GPU-h", 64.0, 0.0, 0.0)
    assert "allocated_core_h" not in shown
    assert run(terminal, "quota", "/physics")[:2] == (DONE, "-\n"), "core-hours are another unit"
    columns = run(terminal, "quota", "/physics", "--unit", "GPU-h", "--format", "columns")[1].split()
    assert (columns[0], columns[1], columns[-2]) == ("/physics", "64.00", "GPU-h")
    assert run(terminal, "quota", "/physics", "--unit", "TPU-h")[0] == REFUSED
