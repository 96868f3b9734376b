"""A clock that jumps forty days ahead for forty seconds, and one that really is later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts import tasks
from apps.accounts.clock_watch import CONFIRMED_AFTER, MOST_STEP, believed, note_clock
from apps.accounts.models import ClockMark, Session
from apps.core import clock
from apps.runs import workers
from tests.instants import AT

pytestmark = pytest.mark.django_db

JUMP, SECOND, MINUTE = timedelta(days=40), timedelta(seconds=1), timedelta(minutes=1)


def note(at: object) -> None:
    note_clock(at, database_at=at)  # type: ignore[arg-type]


def test_a_clock_that_goes_on_is_believed() -> None:
    assert believed(AT + JUMP) == AT + JUMP, "nothing is known yet"
    for n in range(200):
        note(AT + n * MINUTE)
        assert believed(AT + n * MINUTE + 59 * SECOND) == AT + n * MINUTE + 59 * SECOND


def test_a_jump_is_not_believed_until_it_has_lasted() -> None:
    note(AT)
    for n in range(5):
        note(AT + JUMP + n * 10 * SECOND)
        assert believed(AT + JUMP + n * 10 * SECOND) == AT
    note(AT + 50 * SECOND)  # right again
    assert believed(AT + MINUTE) == AT + MINUTE
    note(AT + 2 * JUMP)
    assert believed(AT + 2 * JUMP) <= AT + MINUTE, "another jump begins anew"
    for n in range(int(CONFIRMED_AFTER / MINUTE)):
        note(AT + 2 * JUMP + n * MINUTE)
        assert believed(AT + 2 * JUMP + n * MINUTE) < AT + JUMP
    note(AT + 2 * JUMP + CONFIRMED_AFTER)
    assert believed(AT + 2 * JUMP + CONFIRMED_AFTER) == AT + 2 * JUMP + CONFIRMED_AFTER


def test_two_readings_far_apart_confirm_nothing() -> None:
    note(AT)
    note(AT + JUMP)
    note(AT + 2 * JUMP)
    assert believed(AT + 2 * JUMP) == AT


def test_a_clock_set_back_is_believed_at_once_and_a_slow_one_of_another_worker_is_not() -> None:
    note(AT + JUMP)
    note(AT)
    assert ClockMark.objects.get().at == AT
    note(AT + MINUTE)
    note(AT)  # of a worker that is a minute behind
    assert ClockMark.objects.get().at == AT + MINUTE


def test_a_clock_ahead_of_the_database_is_never_confirmed() -> None:
    note(AT)
    for n in range(60):
        note_clock(AT + JUMP + n * MINUTE, database_at=AT + n * MINUTE)
    assert ClockMark.objects.get().at == AT
    assert believed(AT + JUMP) == AT


def test_workers_read_the_clock_with_each_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    workers.record_contact(clock.now())
    assert abs(ClockMark.objects.get().at - clock.now()) < MOST_STEP


def test_sessions_survive_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    Session.objects.create(session_key="valid", session_data="", expire_date=AT + timedelta(hours=12))
    Session.objects.create(session_key="over", session_data="", expire_date=AT - timedelta(hours=12))
    note(AT)
    note(AT + JUMP)
    monkeypatch.setenv(clock.VARIABLE, (AT + JUMP).isoformat())
    tasks.clear_sessions()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["valid"]


def test_processes_that_read_their_first_clock_together_store_it_without_an_error(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    """Both have read that there is none. PostgreSQL logs even a refused insert that is tried again."""
    monkeypatch.setattr(ClockMark.objects, "filter", lambda **_: ClockMark.objects.none())
    note(AT)
    with django_assert_num_queries(1) as statements:
        note(AT + SECOND)
    assert "ON CONFLICT" in statements.captured_queries[0]["sql"]
    assert ClockMark.objects.get().at == AT + SECOND
