"""Steps that join the transaction of their caller."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.core.postgresql import join_transaction

pytestmark = pytest.mark.django_db


def add_person(name: str, *, fails: bool = False) -> None:
    with join_transaction():
        User.objects.create_user(name)
        if fails:
            raise ValueError(name)


@transaction.atomic
def add_two() -> None:
    add_person("ada")
    add_person("ben", fails=True)


def test_a_step_that_fails_alone_is_rolled_back() -> None:
    with pytest.raises(ValueError, match="ada"):
        add_person("ada", fails=True)
    assert not User.objects.filter(username="ada").exists()


def test_a_step_that_fails_ends_the_transaction_that_it_joined() -> None:
    with pytest.raises(ValueError, match="ben"):
        add_two()
    assert not User.objects.filter(username__in=("ada", "ben")).exists()


def test_in_an_open_transaction_a_step_sets_no_savepoint() -> None:
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        add_person("ada")
    assert [query["sql"] for query in queries if "SAVEPOINT" in query["sql"] and "RELEASE" not in query["sql"]] == []
