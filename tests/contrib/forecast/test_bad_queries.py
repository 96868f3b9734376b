"""A forecast that can't be drawn says why."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.pages.grid import SLUG, Grid
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.mark.django_db
def test_an_invalid_share_is_refused_with_a_reason(open_grid: Grid, client: Client) -> None:
    client.force_login(open_grid.alice)
    named = f"forecast?share=-1&policy={SLUG}&entry={open_grid.uid('/atlas/alice')}"
    answer = client.get(f"/me/priority/figures/{named}", headers={"Accept": "application/json"})
    assert answer.status_code == 422, answer.content[:300]
    assert len(answer.json()["detail"]) > 15
