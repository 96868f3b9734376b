"""Pages and answers for a reader of sums: suppressed values say so, and why; never 0."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client

from apps.accounts.models import User
from apps.policies.models import Grant
from apps.priorities.models import Snapshot
from apps.web.shell.presentation import why_not_shown
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


@pytest.fixture
def vera(grid: Grid, client: Client) -> Client:
    """A viewer of the whole, where every group has two people."""
    user = User.objects.create_user("vera")
    make_grant(
        user,
        grid.uid("/"),
        "viewer",
        verbs=["view_aggregate"],
        at=grid.at,
        reason="sums",
    )
    client.force_login(user)
    return client


def end_the_day(grid: Grid) -> None:
    Snapshot.objects.update(computed_at=grid.at - timedelta(days=1))


def test_before_the_first_complete_day_nothing_is_shown(grid: Grid, vera: Client) -> None:
    page = read(vera.get(f"/policy/{SLUG}/"))
    assert page.item("sums-only").attributes["data-state"] == "later"
    assert not page.has('[data-testid="not-shown"]')
    answer = vera.get(f"/api/v1/policies/{SLUG}/tree").json()
    assert answer["as_of"] is None
    assert answer["suppressed"] is False


def test_suppressed_values_have_a_reason(grid: Grid, vera: Client) -> None:
    end_the_day(grid)
    answer = vera.get(f"/policy/{SLUG}/")
    page = read(answer)
    assert page.item("sums-only").attributes["data-state"] == "shown"
    marks = page.all('[data-testid="not-shown"] [data-testid="balance"]')
    assert [mark.attributes["data-state"] for mark in marks] == ["nodata"] * len(marks)
    assert len(marks) >= 3
    assert "alice" not in answer.content.decode()
    entry = read(vera.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/"))
    assert "atlas" in entry.text("#verdict")
    assert not re.search(r"\d", entry.text("#verdict"))
    assert entry.text('[data-testid="why-not-shown"]') == " ".join(why_not_shown().split())
    assert re.findall(r"\d+", why_not_shown()) == [str(settings.FAIRSHARE_SMALLEST_GROUP)]


def test_rest_returns_null_and_a_suppressed_flag(grid: Grid, vera: Client) -> None:
    end_the_day(grid)
    answer = vera.get(f"/api/v1/policies/{SLUG}/tree").json()
    assert answer["as_of"] is not None
    for entry in (answer, *answer["children"]):
        assert entry["suppressed"] is True
        for name in ("usage_core_s", "actual", "priority", "rank", "factor"):
            assert entry[name] is None, (entry["path"], name)
        assert entry["target"] is not None
        assert entry["state"] == "unknown"


def test_users_with_access_to_names_see_current_numbers(grid: Grid, vera: Client) -> None:
    Grant.objects.update(verbs=["view_aggregate", "view_members"])
    answer = vera.get(f"/api/v1/policies/{SLUG}/tree?depth=2").json()
    assert answer["suppressed"] is False
    assert answer["usage_core_s"] > 0
    assert {child["name"] for child in answer["children"][0]["children"]} == {"alice", "bob"}
