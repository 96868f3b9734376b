"""`manage.py verify_audit`: an administrator of the database can still change the log, but not unnoticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts import audit_log as audit
from apps.accounts import audit_log as audit_check
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import check_chain, last_check
from apps.accounts.models import AuditCheck, AuditEvent
from apps.accounts.tasks import verify_audit as verify_by_the_clock
from tests.examples import examples
from tests.instants import AT

Tamper = Callable[..., None]
pytestmark = pytest.mark.django_db


def write(n: int = 10) -> None:
    for number in range(n):
        audit.record(actor=SYSTEM, verb="policy.published", at=AT, subject=f"row {number}", details={"n": number})


@pytest.fixture
def tamper() -> Tamper:
    """What a superuser of the database can do: run statements with the triggers off."""

    def run(*statements: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("SET LOCAL session_replication_role = origin")

    return run


def verify() -> str:
    out = StringIO()
    call_command("verify_audit", stdout=out)
    return out.getvalue()


def refused(key: str, row: int) -> str:
    """What the command says of a log that is broken at this row, in this way."""
    verdict = audit_check.verify(audit_check._rows(), audit_check._earlier())
    with pytest.raises(CommandError) as error:
        call_command("verify_audit")
    assert error.value.returncode == 1
    assert (verdict.key, verdict.broken_id) == (key, row)
    assert verdict.problem in str(error.value)
    assert re.search(rf"\b{row}\b", verdict.problem)
    return str(error.value)


def test_an_unbroken_log_reports_its_length_and_head() -> None:
    write()
    head = bytes(AuditEvent.objects.get(pk=10).hash).hex()
    assert verify().split()[0] == "10"
    assert verify().split()[-1] == head
    check = last_check()
    assert check is not None
    assert (check.n_rows, check.broken_id, bytes(check.head_hash).hex()) == (10, None, head)


def test_an_empty_log_is_unbroken() -> None:
    assert verify().split()[0] == "0"


CHANGES = [
    "verb = 'x'",
    "reason = 'x'",
    "actor_name = 'x'",
    "details = '{\"n\": 5}'",
    "at = at + interval '1 microsecond'",
    "outcome = 'refused'",
    "policy_slug = 'x'",
    "entry_uid = gen_random_uuid()",
    "address = '192.0.2.1'",
    "via = 'x'",
    "request_id = 'x'",
    "hash = sha256('x')",
    "token_prefix = 'x'",
    "actor_id = 7",
    "subject = ''",
]


@pytest.mark.parametrize("column", CHANGES)
def test_a_changed_row_is_reported(tamper: Tamper, column: str) -> None:
    write()
    tamper(f"UPDATE accounts_auditevent SET {column} WHERE id = 4")  # noqa: S608 - a test's own words
    refused("changed", 4)


def test_a_row_with_a_forged_hash_breaks_the_next(tamper: Tamper) -> None:
    write()
    event = AuditEvent.objects.get(pk=4)
    event.reason = "forged"
    fitting = audit.hash_of(event).hex()
    tamper(f"UPDATE accounts_auditevent SET reason = 'forged', hash = '\\x{fitting}' WHERE id = 4")  # noqa: S608
    assert re.findall(r"\d+", refused("unlinked", 5)) == ["5", "4"], "four before it hold"


def test_a_deleted_row_is_reported(tamper: Tamper) -> None:
    write()
    tamper("DELETE FROM accounts_auditevent WHERE id = 4")
    assert re.findall(r"\d+", refused("missing", 4)) == ["4", "5", "3"], "row 5 comes in its place"


def test_two_swapped_rows_are_found_at_the_first(tamper: Tamper) -> None:
    write()
    tamper(
        "UPDATE accounts_auditevent SET id = -1 WHERE id = 4",
        "UPDATE accounts_auditevent SET id = 4 WHERE id = 7",
        "UPDATE accounts_auditevent SET id = 7 WHERE id = -1",
    )
    refused("unlinked", 4)


def test_truncated_rows_are_detected_at_the_next_check(tamper: Tamper) -> None:
    write()
    verify()
    tamper("DELETE FROM accounts_auditevent WHERE id > 7")
    assert re.findall(r"\d+", refused("cut_off", 8))[:2] == ["8", "10"], "there were 10 rows on that day"


def test_a_rewritten_log_differs_from_the_checked_one(tamper: Tamper) -> None:
    write()
    verify()
    tamper("DELETE FROM accounts_auditevent WHERE id > 7")
    write(5)
    assert re.findall(r"\d+", refused("rewritten", 10))[:1] == ["10"]


def test_the_result_is_stored_for_the_page(tamper: Tamper) -> None:
    write()
    assert verify_by_the_clock() == 10
    tamper("UPDATE accounts_auditevent SET verb = 'x' WHERE id = 1")
    assert verify_by_the_clock() == 0
    check = last_check()
    assert check is not None
    assert (check.broken_id, check.n_rows) == (1, 0)
    assert AuditCheck.objects.count() == 2


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abå"), inside, max_size=3),
    max_leaves=6,
)
ADDRESSES = ["192.0.2.7", "2001:DB8:0:0::1", "::ffff:192.0.2.7", "::1", "fe80::0001", None]


@examples(40, suppress=HealthCheck)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), json_values, max_size=3), st.sampled_from(ADDRESSES))
def test_every_written_row_has_a_reproducible_hash(details: dict[str, object], address: str | None) -> None:
    actor = Actor(user=None, via="api", address=address)
    audit.record(actor=actor, verb="x", at=AT, details=details)
    found = check_chain(at=AT)
    assert found.broken_id is None, found.problem
