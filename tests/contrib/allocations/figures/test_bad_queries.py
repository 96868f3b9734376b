"""A figure of core-hours that can't be drawn says why in its place on the page."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.pages.page import read
from tests.web.figures import test_bad_queries
from tests.worlds import fresh_process  # noqa: F401 - fixture

PAGE = f"{test_bad_queries.PAGE}allocations/"
eva = test_bad_queries.eva


@pytest.mark.parametrize(
    ("figure", "query"),
    [
        ("usage", "usage_by=moon"),
        ("usage", "from=0001-01-01&to=9999-12-31"),
        ("burn-down", "from=1900-01-01&to=2100-01-01"),
    ],
)
def test_invalid_queries_are_refused_with_a_reason(eva: Client, figure: str, query: str) -> None:
    answer = eva.get(f"{PAGE}figures/{figure}?{query}", headers={"Accept": "application/json"})
    assert answer.status_code == 422, answer.content[:300]
    assert len(answer.json()["detail"]) > 15


def test_a_page_shows_the_error_in_place_of_the_figure(eva: Client) -> None:
    answer = eva.get(f"{PAGE}?usage_by=moon")
    page = read(answer, answer.status_code)
    assert answer.status_code in {200, 422}
    assert len(page.text("#fig-usage .fig-state")) > 15
    assert not page.has("#fig-usage .fig-wait")
