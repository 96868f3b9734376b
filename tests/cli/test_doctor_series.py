"""`manage.py doctor` computes days of the series again, and `manage.py rebuild_series` mends what it names."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db import connection

from apps.series.models import Series
from apps.series.tiles import read_month, write_month
from apps.usage.models import Source
from tests.cli.test_doctor import all_findings, report
from tests.priority_site import AS_OF, Site, make_month_of_days
from tests.series.test_day_audit import WRONG_ON, plant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def built(db: None, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AS_OF.isoformat())
    return make_month_of_days()


@pytest.mark.deep
def test_a_wrong_day_is_named_with_the_command_that_builds_the_series_again(built: Site) -> None:
    assert all_findings("series") == []
    _status, answer = report("--only", "series")
    facts = answer["sections"]["series"]["facts"]
    assert facts == ["grid: 30 of 30 days compared with the usage, from 2026-10-21 to 2026-11-19"]
    plant(built)
    (found,) = all_findings("series")
    assert (found["name"], found["level"]) == ("series_differs", "bad")
    assert f"The daily series of grid is wrong on {WRONG_ON.isoformat()}: / has decayed " in found["message"]
    assert "`manage.py rebuild_series grid`" in found["remedy"]
    out = io.StringIO()
    call_command("rebuild_series", built.slug, "--wait", stdout=out)
    assert out.getvalue() == "30 days and 168 hours built\n"
    assert all_findings("series") == []


def cut_month(site: Site) -> None:
    month_on = WRONG_ON.replace(day=1)
    month = read_month(site.policy, month_on, n_days=3, n_slots=Series.objects.get(policy=site.policy).n_slots)
    write_month(site.policy, month_on, month)


def leave_one_day(site: Site) -> None:
    """Of the month, its first day: numpy would repeat it for all others."""
    month_on = WRONG_ON.replace(day=1)
    month = read_month(site.policy, month_on, n_days=1, n_slots=Series.objects.get(policy=site.policy).n_slots)
    write_month(site.policy, month_on, month)


def spoil_month(site: Site) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE analytics_seriestile SET digest = repeat('0', 64)")


@pytest.mark.parametrize("damage", [cut_month, leave_one_day, spoil_month])
def test_days_that_cannot_be_read_are_named_and_built_again(built: Site, damage: Callable[[Site], None]) -> None:
    damage(built)
    (found,) = all_findings("series")
    assert (found["name"], found["level"]) == ("series_damaged", "bad")
    assert "`manage.py rebuild_series grid`" in found["remedy"]
    call_command("rebuild_series", built.slug, "--wait", stdout=io.StringIO())
    assert all_findings("series") == []


def test_days_whose_demand_is_lost_are_built_again(built: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Records of jobs that waited are deleted, so that the stored demand can't be computed again."""
    spoil_month(built)
    Source.objects.update(sealed_before_at=AS_OF)
    call_command("rebuild_series", built.slug, "--wait", stdout=io.StringIO())
    assert "The stored demand of grid in 2026-11-01 is lost." in caplog.text
    assert all_findings("series") == []


def test_a_site_without_days_is_well(db: None) -> None:
    assert all_findings("series") == []
