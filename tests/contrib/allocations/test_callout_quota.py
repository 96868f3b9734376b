"""`fairshare-callout quota` against a live site: what is left of core-hours."""

from __future__ import annotations

import json
from datetime import date

import pytest

from apps.accounts.actor import Actor
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.mapping.permissions import load_visibility
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
            starts_on=date(year - 1, 1, 1), ends_on=date(year + 5, 12, 31), core_h=1000.0, reason="test"
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
        assert found["remaining_core_h"] == 993.0
    assert run(terminal, "quota", "/biology")[:2] == (DONE, "-\n")
    assert run(terminal, "quota", "/nobody")[0] == REFUSED
