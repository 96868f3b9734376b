"""A read-only request runs the same query once; other code runs it each time."""

from __future__ import annotations

from collections import Counter

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.accounts.request_cache import cache_for_request, once_per_request
from apps.policies.models import Policy
from tests.grants import make_grant
from tests.pages.grid import Grid


def test_a_result_is_cached_until_the_outer_block_ends() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(len(asked))
        return len(asked)

    assert [once_per_request("key", ask) for _ in range(2)] == [1, 2]
    with cache_for_request():
        with cache_for_request():
            assert once_per_request("key", ask) == 3
        assert once_per_request("key", ask) == 3
        assert once_per_request("another", ask) == 4
    assert once_per_request("key", ask) == 5


def test_a_page_queries_groups_grants_policies_and_trees_once(closed_grid: Grid, client: Client) -> None:
    client.force_login(User.objects.create_user("zoe"), backend="django.contrib.auth.backends.ModelBackend")
    client.get("/me/priority/")
    with CaptureQueriesContext(connection) as asked:
        assert client.get("/me/priority/").status_code == 200
    tables = ("auth_group", "policies_grant", "policies_policy", "policies_revision")
    repeated = [
        sql
        for sql, n in Counter(query["sql"] for query in asked).items()
        if n > 1 and any(f'FROM "{table}"' in sql for table in tables)
    ]
    assert repeated == []


def test_the_next_request_sees_a_new_grant(closed_grid: Grid, client: Client) -> None:
    zoe, policy = User.objects.create_user("zoe"), Policy.objects.get()
    client.force_login(zoe, backend="django.contrib.auth.backends.ModelBackend")
    page = f"/policy/{policy.slug}/n/{closed_grid.uid('/atlas')}/atlas/"
    assert client.get(page).status_code == 404
    make_grant(
        zoe, closed_grid.uid("/"), "viewer", policy=policy, verbs=["view_aggregate"], at=closed_grid.at, reason="sums"
    )
    assert client.get(page).status_code == 200
