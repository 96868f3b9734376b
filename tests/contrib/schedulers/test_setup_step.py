"""The first steps of a site end with a scheduler of the policy."""

from __future__ import annotations

from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
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


def test_without_a_policy_the_page_of_schedulers_leads_back_to_the_first_steps(db: None, client: Client) -> None:
    sign_in(client, User.objects.create_superuser("admin"))
    page = read(client.get("/schedulers/"))
    assert "divide the shares first" in page.text("main .empty")
    assert page.each("main .empty a", "href") == ["/"]
    assert sign_in(Client(), User.objects.create_user("una")).get("/schedulers/").status_code == 403
    for address in read(client.get("/")).each('[data-testid="attention-item"] a', "href"):
        assert client.get(address).status_code == 200, address
