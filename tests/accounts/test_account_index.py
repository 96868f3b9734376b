"""The roll of accounts: whatever came, changed or went, it reads as the table does, and is read again only then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from apps.accounts import account_index
from apps.accounts.account_ids import AccountKey, account_ids
from apps.accounts.account_index import AccountIndex, load_account_index
from apps.accounts.models import Account
from tests.instants import AT

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_index, "_cached", account_index._CachedIndex())


def _add(*users: str) -> list[int]:
    return list(account_ids([AccountKey("c", user) for user in users], at=AT).values())


def _load() -> AccountIndex:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return load_account_index(use_cache=True)


def _names(found: AccountIndex) -> Sequence[str]:
    table = dict(Account.objects.values_list("id", "user_name"))
    result = dict(zip(found.ids.tolist(), [key.user_name for key in found.keys], strict=True))
    assert result == table
    assert found.ids.tolist() == sorted(table)
    return list(result.values())


def test_the_index_is_reused_while_nothing_changed() -> None:
    assert _names(_load()) == []
    _add("alice", "bob")
    first = _load()
    assert _names(first) == ["alice", "bob"]
    assert _load() is first
    Account.objects.filter(user_name="bob").update(first_seen_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert _load() is first  # nothing of it that counts has changed


def test_new_renamed_and_deleted_accounts_are_detected() -> None:
    _add("alice", "bob")
    _load()
    _add("carol")
    assert _names(_load()) == ["alice", "bob", "carol"]
    Account.objects.filter(user_name="bob").update(user_name="p-1")
    assert _names(_load()) == ["alice", "p-1", "carol"]
    Account.objects.filter(user_name="alice").delete()
    assert _names(_load()) == ["p-1", "carol"]
    Account.objects.filter(user_name="carol").delete()
    _add("dave")  # as many as before, and not the same
    assert _names(_load()) == ["p-1", "dave"]


def test_a_concurrent_transaction_is_not_missed() -> None:
    """Its rows have a lower number than others that were seen already."""
    other = connection.copy()
    try:
        with other.cursor() as slow:
            slow.execute("BEGIN")
            slow.execute(
                "INSERT INTO accounts_account (namespace, user_name, group_name, dn, fqan, project,"
                " first_seen_at) VALUES ('c', 'late', '', '', '', '', now())"
            )
            _add("early")
            assert _names(_load()) == ["early"]
            slow.execute("COMMIT")
        assert sorted(_names(_load())) == ["early", "late"]
    finally:
        other.close()


def test_uncommitted_accounts_are_never_cached() -> None:
    _add("alice")
    _load()
    with transaction.atomic():
        _add("undone")
        assert _names(load_account_index(use_cache=False)) == ["alice", "undone"]
        transaction.set_rollback(True)
    assert _names(_load()) == ["alice"]
