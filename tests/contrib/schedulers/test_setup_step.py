"""The first steps of a site end with a scheduler of the policy."""

from __future__ import annotations

from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.services import connect_scheduler
from apps.pages.overview import cards
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in
from tests.worlds import fresh_process  # noqa: F401 - fixture

STEP = '[data-testid="attention-item"][data-key="scheduler"]'


def test_first_steps_lead_to_schedulers_until_one_is_connected(open_grid: Grid, client: Client) -> None:
    cards.last_good.clear()
    sign_in(client, open_grid.admin)
    assert read(client.get("/")).has(f'{STEP} a[href="/schedulers/"]')
    connect_scheduler(policy_slug=SLUG, name="umea", settings={}, at=open_grid.at, actor=SYSTEM)
    page = read(client.get("/"))
    assert not page.has(STEP), "all steps are done"
    assert not page.has('[data-testid="kind"][data-key="setup"]')
