"""A policy that is archived has no forecast."""

from __future__ import annotations

from apps.mapping import removal
from tests.mapping.test_archiving import WHY
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def test_a_forecast_of_an_archived_policy_is_refused_as_archived(computed_site: Site) -> None:
    removal.archive_policy(slug="grid", **WHY)
    admin = Caller(user=computed_site.admin)
    assert refused(admin.get("policies/grid/forecast?account=alice"))[:2] == (410, "archived")
