"""The page of SAM's ledger: books, jobs by state, warnings; for those who read it by REST."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.contrib.jobs.models import Ledger
from tests.contrib.jobs.gateway.conftest import Gateway
from tests.pages.page import read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db


def test_ledger_jobs_and_warnings_are_shown_to_permitted_users(gateway: Gateway, client: Client) -> None:
    sign_in(client, gateway.site.admin)
    assert client.get("/policy/grid/sam/").status_code == 404
    gateway.set(entry="/", lost_after_h=48, priority_groups={"daq": 7})
    for job in ("a", "b"):
        gateway.step("decide", job, group="physics", benefit=30)
    gateway.step("started", "a")
    page = read(client.get("/policy/grid/sam/"))
    states = dict(zip(page.each("[data-testid=state]", "data-key"), page.texts("[data-testid=state]"), strict=True))
    assert states == {"decided": "1", "started": "1", "finished": "0", "cancelled": "0", "lost": "0"}
    assert page.texts("[data-testid=open-job] th") == ["a", "b"]
    assert len(page.all("[data-testid=warning]")) == 2
    groups = [" ".join(text.split()) for text in page.texts("[data-testid=group]")]
    assert [text.split()[0] for text in groups] == ["biology", "physics"]
    assert "30" in groups[1]
    assert "-12" in groups[1].replace("\u2212", "-"), "60 % of 30 is 18, so it has 12 too many"
    sign_in(client, gateway.site.pia)
    assert client.get("/policy/grid/sam/").status_code == 404, "she doesn't see biology"


def test_a_benefit_function_that_is_unknown_is_named_on_the_page(gateway: Gateway, client: Client) -> None:
    sign_in(client, gateway.site.admin)
    gateway.set(entry="/")
    Ledger.objects.update(benefit={"energy": 2})
    page = read(client.get("/policy/grid/sam/"))
    assert "The benefit function energy isn't built in" in page.texts("[data-testid=warning]")[0]
