"""The planner's statistics follow bulk loads."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.core.postgresql import analyze_grown, analyze_unexpected
from apps.policies.services import make_policy, publish_document
from tests.instants import AT

pytestmark = pytest.mark.django_db


def known_rows() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE relname = 'grown'")
        return float(cursor.fetchone()[0])


def test_a_table_is_analysed_when_it_has_doubled() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE grown (id bigint, note text)")

        def load(n: int) -> float:
            cursor.execute("INSERT INTO grown SELECT n, repeat('x', 100) FROM generate_series(1, %s) AS n", [n])
            analyze_grown("grown", "accounts_account")
            return known_rows()

        assert load(100) == -1, "small tables are left to autovacuum"
        assert load(20_000) == pytest.approx(20_100, rel=0.01)
        assert load(1_000) == pytest.approx(20_100, rel=0.01), "not again for a few more"
        assert load(40_000) == pytest.approx(61_100, rel=0.01)


def test_a_table_is_analysed_for_a_new_owner_beside_a_much_larger_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE owned (owner bigint, note text)")

        def load(owner: int, n: int) -> None:
            cursor.execute("INSERT INTO owned SELECT %s, repeat('x', 100) FROM generate_series(1, %s)", [owner, n])

        def expected_rows(owner: int) -> float:
            cursor.execute("EXPLAIN (FORMAT JSON) SELECT 1 FROM owned WHERE owner = %s", [owner])
            return float(cursor.fetchone()[0][0]["Plan"]["Plan Rows"])

        load(1, 60_000)
        analyze_grown("owned")
        load(2, 4_000)
        analyze_grown("owned")
        assert expected_rows(2) == 1, "the table has hardly grown"
        analyze_unexpected("owned", "owner", 2, 4_000)
        assert expected_rows(2) == pytest.approx(4_000, rel=0.3)
        load(2, 4_000)
        analyze_unexpected("owned", "owner", 2, 4_000)
        assert expected_rows(2) == pytest.approx(4_000, rel=0.3), "not again for as many as are expected"


@pytest.mark.parametrize("n", [500, 1_900, 9_000])
def test_the_entries_of_a_policy_just_published_are_expected(n: int) -> None:
    """Else the check that they are a tree is planned for a single entry, and takes seconds."""
    with connection.cursor() as cursor:
        for slug, n_users in (("first", 3_000), ("second", n)):
            users = [{"name": f"u{number}", "kind": "user"} for number in range(n_users)]
            policy = make_policy(slug=slug, name=slug, at=AT, actor=COMMAND)
            document = {"policy": slug, "root": {"name": slug, "children": users}}
            publish_document(policy_slug=slug, document=document, reason="test", at=AT, actor=COMMAND)
            cursor.execute("EXPLAIN (FORMAT JSON) SELECT 1 FROM policies_entry WHERE policy_id = %s", [policy.pk])
            expected = float(cursor.fetchone()[0][0]["Plan"]["Plan Rows"])
            assert expected == pytest.approx(n_users, rel=0.3), slug
