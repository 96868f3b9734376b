"""Pages of charges: the arithmetic is there to be checked, for those whose it is."""

from __future__ import annotations

import csv
from io import StringIO

import pytest
from django.test import Client

from apps.priorities.charges import HEADER
from apps.usage.models import Record
from tests.dashboard.grid import Grid
from tests.dashboard.page import read
from tests.sign_in import sign_in

LIST = "/policy/grid/charges/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def admin_client(grid: Grid) -> Client:
    return sign_in(Client(), grid.admin)


@pytest.fixture
def alice_client(grid: Grid) -> Client:
    return sign_in(Client(), grid.alice)


def test_my_priority_links_to_my_jobs_and_each_to_its_calculation(alice_client: Client, grid: Grid) -> None:
    assert LIST in alice_client.get("/me/priority/").content.decode()
    page = alice_client.get(LIST).content.decode()
    mine = Record.objects.get(account__user_name="alice")
    assert f"{LIST}{mine.pk}/" in page
    assert f"{LIST}{Record.objects.get(account__user_name='bob').pk}/" not in page
    one = read(alice_client.get(f"{LIST}{mine.pk}/"))
    for part in ("#what", "#fade", "#where", '[data-testid="no-class-rule"]'):
        assert one.has(part)
    assert "7,200" in one.text("main")


def test_jobs_of_others_are_not_found(alice_client: Client, grid: Grid) -> None:
    other = Record.objects.get(account__user_name="bob")
    assert alice_client.get(f"{LIST}{other.pk}/").status_code == 404
    nothing = read(alice_client.get(f"{LIST}?job={other.job}"))
    assert nothing.item("no-charges").attributes["data-state"] == "search"
    own = Record.objects.get(account__user_name="alice")
    assert not read(alice_client.get(f"{LIST}?job={own.job}")).has('[data-testid="no-charges"]')


def test_an_administrator_filters_by_source_and_downloads_a_table(admin_client: Client, grid: Grid) -> None:
    source = Record.objects.order_by("pk")[0].source
    assert f"{LIST}?source={source.slug}" in admin_client.get(f"/usage/sources/{source.slug}/").content.decode()
    text = b"".join(admin_client.get(f"{LIST}table.csv?source={source.slug}")).decode()
    rows = list(csv.reader(StringIO(text)))
    assert rows[0] == list(HEADER)
    assert len(rows) == 1 + Record.objects.count()


def test_the_list_is_a_fragment(admin_client: Client, grid: Grid) -> None:
    assert admin_client.get(f"{LIST}_rows").status_code == 303
    part = admin_client.get(f"{LIST}_rows?account=carol", headers={"HX-Request": "true"}).content.decode()
    assert part.lstrip().startswith('<section class="card" id="charge_rows"')
    assert "carol" in part
