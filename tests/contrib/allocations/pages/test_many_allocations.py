"""An entry with thousands of allocations: each page loads them once, and draws no more rows than it shows."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.contrib.allocations.pages import calendar, entry_views
from apps.policies.models import Allocation, Policy
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in

MANY = 2_000
SHOWN, SOON_SHOWN = 100, 50
HTMX = {"HX-Request": "true"}


@pytest.fixture
def admin(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Of one entry: a day each, from two years before the present day on, several on each day."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    policy, uid = Policy.objects.get(slug=SLUG), grid.uid("/atlas")
    days = [date(2025, 1, 1) + timedelta(days=n % 900) for n in range(MANY)]
    Allocation.objects.bulk_create(
        Allocation(
            uid=uuid.uuid4(), policy=policy, entry_uid=uid, starts_on=day, ends_on=day, amount=100.0 + n, reason="x",
            author=grid.admin, author_name="admin", created_at=AT,
        )
        for n, day in enumerate(days)
    )  # fmt: skip
    return sign_in(Client(), grid.admin)


def n_loads(queries: list[dict[str, Any]]) -> int:
    """How often the allocations of the policy are loaded."""
    return sum('FROM "policies_allocation"' in query["sql"] and "LIMIT" not in query["sql"] for query in queries)


@pytest.mark.parametrize(
    ("address", "most_loads"),
    [
        ("n/{uid}/atlas/core-hours/", 1),
        ("n/{uid}/_core-hours", 1),
        ("n/{uid}/_warnings?amount=1&starts_on=2026-01-01&ends_on=2026-12-31", 1),
        ("allocations/calendar/", 1),
        ("allocations/", 1),
    ],
)
def test_a_page_loads_allocations_once(admin: Client, grid: Grid, address: str, most_loads: int) -> None:
    url = f"/policy/{SLUG}/{address.format(uid=grid.uid('/atlas'))}"
    with CaptureQueriesContext(connection) as queries:
        response = admin.get(url, headers=HTMX if "/_" in url else {})
    assert response.status_code == 200
    assert n_loads(queries.captured_queries) == most_loads


def test_no_more_rows_are_drawn_than_shown(admin: Client, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, int] = {"events": 0, "allocations": 0}

    def counting(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            drawn[name] += 1
            return draw(*arguments)

        return call

    monkeypatch.setattr(calendar, "draw_event", counting("events", calendar.draw_event))
    monkeypatch.setattr(entry_views, "_allocation", counting("allocations", entry_views._allocation))
    page = read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/core-hours/?soon=90"))
    assert drawn == {"events": SOON_SHOWN, "allocations": SHOWN}
    assert f"{MANY - SHOWN:,}" in page.html
    before, drawn["events"] = drawn["events"], 0
    admin.get(f"/policy/{SLUG}/allocations/_soon?soon=90", headers=HTMX)
    assert drawn["events"] == before
