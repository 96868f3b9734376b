"""The smallest job that changes a rank, beside the accounts to submit under."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.explain.my_priority import get_my_priority
from tests.pages.grid import Grid
from tests.pages.page import read, with_cards
from tests.sign_in import sign_in
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


def test_the_page_shows_the_smallest_visible_job(open_grid: Grid) -> None:
    (priority, *_others) = get_my_priority(actor=Actor(user=open_grid.alice, via="page"))
    assert priority.smallest_job is not None
    client = sign_in(Client(), open_grid.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert page.item("smallest-job").attributes["data-value"] == str(priority.smallest_job.any_level_h)
    assert page.has("#submit")
    assert page.has("#waiting-jobs")
