"""Tests of services watch in which order transactions lock rows; here that a wrong order is noticed."""

from __future__ import annotations

import pytest
from django.db import transaction

from apps.accounts.models import Token, User
from apps.policies.models import ChangeSet, Policy
from apps.runs.models import Run
from apps.usage.models import Source
from tests.lock_order import ORDER, locked_table, watched_locks

pytestmark = pytest.mark.django_db


def lock(*models: type) -> None:
    with transaction.atomic():
        for model in models:
            list(model._default_manager.select_for_update(no_key=True))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ('SELECT "runs_run"."id" FROM "runs_run" WHERE "id" = %s LIMIT 1 FOR NO KEY UPDATE', "runs_run"),
        ('SELECT 1 FROM "a_b" INNER JOIN "c_d" ON (TRUE) FOR NO KEY UPDATE OF "a_b"', "a_b"),
        ('SELECT 1 FROM "a_b" FOR UPDATE', "a_b"),
        ('SELECT 1 FROM "a_b" FOR UPDATE SKIP LOCKED', None),
        ('SELECT 1 FROM "a_b" FOR NO KEY UPDATE OF "a_b" SKIP LOCKED', None),
        ('SELECT 1 FROM "a_b" FOR UPDATE NOWAIT', None),
        ('SELECT 1 FROM "a_b"', None),
        ('UPDATE "a_b" SET "x" = 1', "a_b"),
        ("\nUPDATE a_b SET x = 1", "a_b"),
        ('DELETE FROM "a_b" WHERE TRUE', "a_b"),
        ("SELECT pg_advisory_xact_lock(7, 8)", "lock 7"),
    ],
)
def test_statements_that_wait_for_a_lock_are_known(sql: str, table: str | None) -> None:
    assert locked_table(sql) == table


@pytest.mark.fault("F16")
def test_locks_against_the_declared_order_are_noticed() -> None:
    with watched_locks() as watch:
        lock(Policy, ChangeSet, Run)
        lock(Policy, ChangeSet, Policy)
        assert watch.wrong == []
        lock(ChangeSet, Policy)
    (wrong,) = watch.wrong
    assert wrong.startswith("policies_policy is locked after policies_changeset, against the declared order")


def test_two_orders_of_tables_without_a_declared_one_are_noticed() -> None:
    with watched_locks() as watch:
        lock(Source, User)
        assert watch.wrong == []
        lock(User, Source)
    (wrong,) = watch.wrong
    assert wrong.startswith(f"{Source._meta.db_table} is locked after {User._meta.db_table}")


def test_a_lock_that_both_take_first_makes_their_order_harmless() -> None:
    with watched_locks() as watch:
        lock(User, Source, Token)
        lock(User, Token, Source)
        assert watch.wrong == []
        lock(Token, Source)
    (wrong,) = watch.wrong
    assert wrong.startswith(f"{Source._meta.db_table} is locked after {Token._meta.db_table}")


def test_an_update_after_a_lock_is_noticed() -> None:
    with watched_locks() as watch:
        lock(Source, User)
        with transaction.atomic():
            User.objects.update(last_name="x")
            lock(Source)
    (wrong,) = watch.wrong
    assert wrong.startswith(f"{Source._meta.db_table} is locked after {User._meta.db_table}")


def test_each_table_has_one_place() -> None:
    assert len(frozenset.union(*ORDER)) == sum(map(len, ORDER))
