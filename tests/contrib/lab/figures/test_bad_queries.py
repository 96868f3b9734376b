"""A figure of operators that can't be drawn says why."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.web.figures import test_bad_queries
from tests.worlds import fresh_process  # noqa: F401 - fixture

eva = test_bad_queries.eva


@pytest.mark.parametrize("query", ["bits=99", "target=1e300"])
def test_invalid_queries_are_refused_with_a_reason(eva: Client, query: str) -> None:
    address = f"{test_bad_queries.PAGE}operators/figures/profiles?{query}"
    answer = eva.get(address, headers={"Accept": "application/json"})
    assert answer.status_code == 422, answer.content[:300]
    assert len(answer.json()["detail"]) > 15
