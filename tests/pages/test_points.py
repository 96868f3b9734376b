"""Pages that speak of points say once that they are percentage points, at the word itself."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.pages.grid import Grid
from tests.pages.test_names import pages_of

WORD = re.compile(r"\bpoints?\b")
SAID = "percentage points"


@pytest.mark.deep
def test_points_are_explained_on_each_page_that_has_them(grid: Grid, client: Client) -> None:
    unexplained, n_pages = {}, 0
    for route, _tab, page in pages_of(grid, client):
        text = page.text("main")
        if word := WORD.search(text):
            n_pages += 1
            if SAID not in text and not page.has('[popovertarget="term-points"]'):
                unexplained[route] = text[max(word.start() - 60, 0) : word.end()]
    assert n_pages >= 3
    assert unexplained == {}
