"""The shares panel shows the balance that follows from typed shares, and says where it is a worse one."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.shares_preview import preview_shares
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def eva(open_grid: Grid, client: Client) -> Client:
    return sign_in(client, open_grid.admin)


def preview(eva: Client, grid: Grid, path: str, shares: str) -> Page:
    uid = grid.uid(path)
    url = f"/policy/{SLUG}/n/{uid}/_preview"
    return read(eva.get(url, {"shares": shares}, headers={"HX-Request": "true"}))


def amounts(page: Page) -> list[float]:
    """Points after and before the change: differences of shares of one decimal."""
    return [float(text) for text in re.findall(r"\d+\.\d+", page.text('[data-testid="balance-after"]'))]


@pytest.mark.parametrize(
    ("path", "shares", "state", "is_farther"),
    [
        ("/atlas", "90", "under", True),  # it used less than its target: a larger one is farther
        ("/atlas", "45", "under", False),
        ("/biomed", "60", "over", False),  # it used more: a larger target is nearer
        ("/biomed", "20", "over", True),
    ],
)
def test_the_balance_that_follows_is_shown_and_whether_it_is_worse(
    eva: Client, open_grid: Grid, path: str, shares: str, state: str, is_farther: bool
) -> None:
    page = preview(eva, open_grid, path, shares)
    shown = page.one('[data-testid="balance-after"]')
    assert shown.attributes["data-state"] == state
    after, before = amounts(page)
    assert (after > before) == is_farther == page.has('[data-testid="farther"]')
    found = preview_shares(
        policy_slug=SLUG,
        entry_uid=open_grid.uid(path),
        shares=float(shares),
        actor=Actor(user=open_grid.admin, via="web"),
    ).changed
    assert found.before.deviation_points is not None
    assert found.after.deviation_points is not None
    assert before == pytest.approx(abs(found.before.deviation_points), abs=0.101)
    assert after == pytest.approx(abs(found.after.deviation_points), abs=0.101)


def test_shares_that_change_nothing_have_no_second_balance(eva: Client, open_grid: Grid) -> None:
    page = preview(eva, open_grid, "/atlas", "60")
    assert not page.has('[data-testid="balance-after"]')
    assert not page.has('[data-testid="farther"]')


def test_an_entry_without_demand_gets_no_warning(eva: Client, open_grid: Grid) -> None:
    page = preview(eva, open_grid, "/cms", "40")
    assert page.one('[data-testid="balance-after"]').attributes["data-state"] == "idle"
    assert not page.has('[data-testid="farther"]')


def test_an_entry_that_inherits_its_shares_has_no_balance_before(eva: Client, open_grid: Grid) -> None:
    """It competes with none of its siblings, and so has no target of its own until it gets shares."""
    actor = Actor(user=open_grid.admin, via="web")
    operation = {"op": "set_shares", "entry": str(open_grid.uid("/atlas")), "shares": "parent"}
    made = make_change_set(policy_slug=SLUG, new=NewChangeSet(operations=[operation]), at=open_grid.at, actor=actor)
    publish_change_set(id=made.pk, version=1, reason="x", at=open_grid.at, actor=actor)
    page = preview(eva, open_grid, "/atlas", "20")
    assert page.one('[data-testid="balance-after"]').attributes["data-state"] == "over"
    assert len(page.all('[data-testid="balance-after"] [data-testid="balance"]')) == 1
    assert not preview(eva, open_grid, "/biomed", "inherit").has('[data-testid="balance-after"]')
