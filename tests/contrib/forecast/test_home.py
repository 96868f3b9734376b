"""The home's days on target are those of the editor of shares for the same entries."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.pages.overview import cards
from tests.contrib.forecast.test_draft_projections import effect_on
from tests.pages.changes.drafts.test_draft_shares import draft_of
from tests.pages.grid import Grid, send_mixed_days
from tests.pages.page import read, text_of
from tests.sign_in import sign_in
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


def test_the_day_on_target_is_that_of_the_editor(open_grid: Grid, client: Client) -> None:
    cards.last_good.clear()
    send_mixed_days(open_grid)
    sign_in(client, open_grid.admin)
    draft = draft_of(open_grid.admin)
    days = set()
    for path in ("/", "/atlas", "/biomed"):
        level = str(open_grid.uid(path))
        expected = {uid: row["on_target"] for uid, row in effect_on(client, draft, group=level).items()}
        rows = read(client.get("/", {"level": level})).all("#children tbody tr")
        shown = {row.attributes["data-uid"]: text_of(row.css_first(".c-on")) for row in rows}
        assert shown == expected, path
        days |= set(shown.values())
    assert len(days) > 1
