"""Core-hours of the sample grid."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.cli.sample.grid import PART, POLICY_SLUG, SITES
from apps.cli.sample.jobs import DAYS
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.table import get_allocation_table
from apps.priorities.serving import store
from tests.instants import AT


@pytest.mark.django_db
def test_the_sample_has_one_allocation_ahead_one_idle_and_one_behind_its_pace(sample_grid: None) -> None:
    store.poll()
    period = Period(AT.date() - timedelta(days=DAYS), AT.date() + timedelta(days=90))
    table = get_allocation_table(policy_slug=POLICY_SLUG, period=period, zone=ZoneInfo("UTC"), actor=COMMAND)
    assert [row.name for row in table.is_over] == ["genomics"]
    assert table.capacity == sum(site.cores for site in SITES) / PART * period.hours(ZoneInfo("UTC"))
    paces = {row.name: row.pace for row in table.rows}
    assert (paces["lattice-qcd"], paces["radio-sky"], paces["genomics"]) == ("ahead", "idle", "behind")
