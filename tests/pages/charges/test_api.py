"""Charges of jobs by REST: the arithmetic in numbers that add up, page by page, and refusals with a place."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

PATH = "/api/v1/policies/grid/charges"
pytestmark = pytest.mark.django_db


def _client(site: Site, *scopes: str) -> dict[str, str]:
    return {"authorization": f"Bearer {site.token(*scopes)}"}


def test_a_job_has_its_calculation(computed: Site) -> None:
    answer = Client().get(f"{PATH}?job=1", headers=_client(computed, "policies:read"))
    assert answer.status_code == 200
    (job,) = answer.json()["results"]
    assert (job["user"], job["path"], job["site"], job["state"]) == ("alice", "/physics/alice", "s1", "finished")
    assert (
        job["charged"] == sum(line["weighted"] for line in job["resources"]) * job["class_factor"] * job["site_factor"]
    )
    assert job["charged"] == pytest.approx(sum(hour["charged"] for hour in job["hours"])) == 6 * 3600
    assert job["historical"] == pytest.approx(sum(hour["charged"] * hour["weight"] for hour in job["hours"]))
    assert job["usage_local"] == job["usage_global"] == job["historical"]
    assert all(hour["at"].endswith(":00:00Z") for hour in job["hours"])


def test_a_self_read_token_sees_own_jobs(computed: Site) -> None:
    token = computed.token("self:read", user=computed.alice)
    answer = Client().get(PATH, headers={"authorization": f"Bearer {token}"})
    assert [job["job"] for job in answer.json()["results"]] == ["1"]


def test_only_administrators_read_the_newest_jobs_of_a_source(computed: Site) -> None:
    answer = Client().get(f"{PATH}?source=cluster-a", headers=_client(computed, "policies:read"))
    assert [job["job"] for job in answer.json()["results"]] == ["3", "2", "1"]
    missing = Client().get(f"{PATH}?source=nowhere", headers=_client(computed, "policies:read"))
    assert missing.status_code == 404


def test_unknown_parameters_are_refused_by_name(computed: Site) -> None:
    answer = Client().get(f"{PATH}?jobs=1", headers=_client(computed, "policies:read"))
    assert answer.status_code == 400
    assert "jobs" in answer.content.decode()
    cursor = Client().get(f"{PATH}?cursor=x", headers=_client(computed, "policies:read"))
    assert cursor.status_code == 400
