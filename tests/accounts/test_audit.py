from __future__ import annotations

import threading
from datetime import datetime

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import COMMAND, SYSTEM, Actor
from apps.accounts.audit_log import check_chain
from apps.accounts.models import AuditEvent

pytestmark = pytest.mark.django_db


def test_events_are_numbered_without_gaps_and_chained(at: datetime, as_alice: Actor) -> None:
    first = audit.record(actor=as_alice, verb="policy.published", at=at, policy_slug="grid", details={"n": 5})
    with transaction.atomic():
        audit.record(actor=as_alice, verb="lost", at=at)
        transaction.set_rollback(True)
    second = audit.record(actor=SYSTEM, verb="usage.imported", at=at, subject="lcg")
    assert (first.id, second.id) == (1, 2)
    assert bytes(second.previous_hash) == bytes(first.hash)
    assert check_chain(at=at).broken_id is None


def test_an_event_goes_with_its_savepoint(at: datetime) -> None:
    with transaction.atomic():
        with transaction.atomic():
            audit.record(actor=SYSTEM, verb="kept", at=at)
        with transaction.atomic():
            audit.record(actor=SYSTEM, verb="lost", at=at)
            transaction.set_rollback(True)
        audit.record(actor=SYSTEM, verb="last", at=at)
    assert list(AuditEvent.objects.order_by("id").values_list("id", "verb")) == [(1, "kept"), (2, "last")]
    assert check_chain(at=at).broken_id is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts_auditevent SET verb = 'x'",
        "DELETE FROM accounts_auditevent",
        "TRUNCATE accounts_auditevent",
    ],
)
def test_the_database_refuses_to_change_the_log(at: datetime, statement: str) -> None:
    audit.record(actor=COMMAND, verb="user.made", at=at)
    with (
        pytest.raises((DatabaseError, IntegrityError), match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEvent.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_chain_is_locked_last_so_that_its_holder_waits_for_nobody(at: datetime) -> None:
    def others_can_write() -> bool:
        found: list[bool] = []

        def write() -> None:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '5s'")
                audit.record(actor=SYSTEM, verb="beside", at=at)
                found.append(True)
            except DatabaseError:
                found.append(False)
            finally:
                connection.close()

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        return found == [True]

    with transaction.atomic():
        audit.record(actor=SYSTEM, verb="early", at=at)
        assert others_can_write()
    verbs = AuditEvent.objects.order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["beside", "early"]


@pytest.mark.django_db(transaction=True)
def test_fifty_concurrent_writers_leave_one_chain(at: datetime) -> None:
    def write(number: int) -> None:
        try:
            audit.record(actor=SYSTEM, verb="parallel", at=at, subject=str(number))
        finally:
            connection.close()

    for _round in range(5):
        threads = [threading.Thread(target=write, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = list(AuditEvent.objects.order_by("id"))
    assert [event.id for event in events] == list(range(1, 51))
    assert check_chain(at=at).broken_id is None
