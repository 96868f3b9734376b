"""The roll of accounts: whatever came, changed or went, it reads as the table does, and is read again only then."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from apps.accounts import account_index
from apps.accounts.account_ids import account_ids
from apps.accounts.account_index import AccountIndex, AccountKeys, load_account_index
from apps.accounts.account_keys import AccountKey
from apps.accounts.models import Account
from tests.instants import AT

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    account_index.forget()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> list[int]:
    """One number for each time that all accounts are read. Even two accounts are kept in the host's file."""
    settings.VAR = tmp_path
    monkeypatch.setattr(account_index, "MANY", 2)
    numbers: list[int] = []
    read = account_index._read

    def noted() -> AccountIndex:
        index = read()
        numbers.append(len(index.ids))
        return index

    monkeypatch.setattr(account_index, "_read", noted)
    return numbers


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


def test_a_process_that_starts_reads_only_what_changed_since_the_file(reads: list[int]) -> None:
    _add("alice", "bob")
    _load()
    _add("carol")
    account_index.forget()
    loaded = _load()
    assert _names(loaded) == ["alice", "bob", "carol"]
    assert reads == [2]
    assert loaded.keys.origin is not None
    assert loaded.keys.origin.n == 2


def test_the_file_is_written_again_once_it_lacks_many(reads: list[int]) -> None:
    _add("alice", "bob")
    first = _load().keys.origin
    _add("carol")
    assert _load().keys.origin == first
    _add("dave")
    origin = _load().keys.origin
    assert origin is not None
    assert (origin.n, origin != first, reads) == (4, True, [2])
    account_index.forget()
    assert _load().keys.origin == origin


def test_unfinished_files_of_killed_processes_are_deleted(reads: list[int]) -> None:
    account_index.directory().mkdir()
    old, young = (account_index.directory() / f".all.accounts.{name}" for name in ("killed", "writing"))
    for path in (old, young):
        path.write_bytes(b"half of it")
    os.utime(old, (0, 0))
    _add("alice", "bob")
    _load()
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("change", ["renamed", "deleted", "deleted and added"])
def test_all_are_read_if_one_of_the_file_has_changed(reads: list[int], change: str) -> None:
    _add("alice", "bob", "carol")
    _load()
    account_index.forget()
    if change == "renamed":
        Account.objects.filter(user_name="bob").update(user_name="p-1")
    else:
        Account.objects.filter(user_name="bob").delete()
    if change == "deleted and added":
        _add("dave")
    _names(_load())
    account_index.forget()
    _names(_load())
    assert len(reads) == 2, "and the file has them then"


@pytest.mark.parametrize("damage", ["cut", "of another server", "not writable"])
def test_a_file_that_cannot_be_used_is_not(reads: list[int], damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _add("alice", "bob")
    path = account_index._path()
    if damage == "not writable":
        path.parent.write_text("a file instead of the folder")
    _load()
    if damage == "cut":
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-9])
    if damage == "of another server":  # which has as many accounts, with other names
        other = account_index._Read(
            AccountIndex(_load().ids, AccountKeys.of([AccountKey("c", "x")] * 2)), "elsewhere", 3
        )
        account_index._in_file(other)
    account_index.forget()
    assert _names(_load()) == ["alice", "bob"]
    assert len(reads) == 2


def test_a_server_that_was_started_anew_is_read_again(reads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failover its transactions can have numbers of others that are lost."""
    _add("alice", "bob")
    _load()
    monkeypatch.setattr(account_index, "_NOW", account_index._NOW.replace("pg_postmaster_start_time()", "now()"))
    assert _names(_load()) == ["alice", "bob"]
    assert len(reads) == 2


def test_many_new_accounts_are_read_in_columns_behind_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not row by row: a million accounts of a first import would take seconds of each worker."""
    monkeypatch.setattr(account_index, "_CHUNK_OF_COLUMNS", account_index._CHUNK_OF_COLUMNS.replace("200000", "3"))
    monkeypatch.setattr(account_index, "_CHUNK", 3)
    _add("alice", "bob")
    first = _load()
    asked: list[str] = []
    asked_apart: set[int] = set()
    rows = account_index._rows

    def noted(query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        asked.append(query)
        asked_apart.update(parameters[0] if query == account_index._SOME else ())
        return rows(query, parameters)

    monkeypatch.setattr(account_index, "_rows", noted)
    _add(*(f"user{number}" for number in range(7)))
    loaded = _load()
    assert loaded.keys[:2] == first.keys[:2]
    assert _names(loaded) == ["alice", "bob", *(f"user{number}" for number in range(7))]
    assert asked.count(account_index._CHUNK_OF_COLUMNS) == 3
    # Known ones may have other names: while any transaction of the server is as old as they are, they are asked again.
    assert asked_apart <= set(first.ids.tolist())
