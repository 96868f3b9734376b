from __future__ import annotations

import threading
from datetime import datetime

import pytest
from django.db import connection

from apps.accounts.account_ids import account_ids
from apps.accounts.account_keys import AccountKey
from apps.accounts.models import Account
from apps.core.errors import Invalid


@pytest.mark.django_db
def test_known_accounts_keep_their_ids_and_new_ones_get_new_ids(at: datetime) -> None:
    alice, bob = AccountKey("c1", "alice", "physics"), AccountKey("c1", "bob", "physics")
    first = account_ids([alice, alice], at=at)
    both = account_ids([bob, alice], at=at)
    assert both[alice] == first[alice] != both[bob]
    assert Account.objects.count() == 2
    assert account_ids([], at=at) == {}


@pytest.mark.django_db
def test_every_part_of_the_name_is_significant(at: datetime) -> None:
    keys = [
        AccountKey("a", "u"),
        AccountKey("b", "u"),
        AccountKey("a", "u", "g"),
        AccountKey("a", "u", "", "/DC=org/CN=u"),
        AccountKey("a", "u", "", "", "/atlas"),
        AccountKey("a", "u", "", "", "", "p"),
    ]
    assert len(set(account_ids(keys, at=at).values())) == len(keys)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("key", "code"),
    [
        (AccountKey("c1"), "account_without_name"),
        (AccountKey("c1", "x" * 257), "account_name"),
        (AccountKey("c1", "a\0b"), "account_name"),
    ],
)
def test_a_name_that_cant_be_stored_is_refused(at: datetime, key: AccountKey, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        account_ids([key], at=at)
    assert refused.value.code == code
    assert not Account.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_writers_with_the_same_new_names_get_the_same_ids(at: datetime) -> None:
    keys = [AccountKey("c1", f"user{number}") for number in range(500)]
    answers: list[dict[AccountKey, int]] = []

    def write(order: list[AccountKey]) -> None:
        try:
            answers.append(account_ids(order, at=at))
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(order,)) for order in (keys, keys[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1]
    assert Account.objects.count() == 500
