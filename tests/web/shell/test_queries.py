"""Upper bounds of the number of queries of a page: of the frame around every page, and of My priority."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from tests.pages.grid import Grid
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
# In tests the first request for a snapshot polls for a newer one: queries that a server's thread runs.
POLL = 2
SESSION_AND_USER = 2
FRAME = 3  # policies, grants, and one query for counts and versions
OF_PASSWORD_PAGE = 1


def count(user: User, path: str, django_assert_max_num_queries: Any, at_most: int) -> None:
    client = sign_in(Client(), user)
    client.get(path)
    with django_assert_max_num_queries(at_most):
        assert client.get(path).status_code == 200


@pytest.mark.parametrize("who", ["alice", "admin"])
def test_the_frame_of_a_page_runs_few_queries(grid: Grid, who: str, django_assert_max_num_queries: Any) -> None:
    at_most = SESSION_AND_USER + FRAME + OF_PASSWORD_PAGE + POLL
    count(getattr(grid, who), "/me/password/", django_assert_max_num_queries, at_most)


def test_my_priority_runs_few_queries(grid: Grid, django_assert_max_num_queries: Any) -> None:
    # Of them, one each for the agents' listings, the sources that list jobs, and how long entries are in their group.
    count(grid.alice, "/me/priority/", django_assert_max_num_queries, 8 + POLL)
