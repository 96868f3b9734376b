"""`manage.py doctor` computes days of the series again, and `manage.py rebuild_series` mends what it names."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command

from tests.cli.test_doctor import all_findings, report
from tests.priority_site import AS_OF, Site, make_month_of_days
from tests.series.test_day_audit import WRONG_ON, plant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def built(db: None, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AS_OF.isoformat())
    return make_month_of_days()


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


def test_a_site_without_days_is_well(db: None) -> None:
    assert all_findings("series") == []
