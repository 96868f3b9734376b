"""Search finds pages of the documentation."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.pages.grid import Grid
from tests.pages.page import read
from tests.sign_in import sign_in


@pytest.mark.django_db
def test_a_page_of_the_documentation_is_found_by_its_title(open_grid: Grid) -> None:
    client = sign_in(Client(), open_grid.alice)
    found = read(client.get("/search/_results", {"q": "worked tree"}, headers={"HX-Request": "true"}))
    assert "/help/worked-tree/" in found.each("a", "href")
