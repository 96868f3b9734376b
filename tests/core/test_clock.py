from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.core import clock


def test_without_a_set_clock_it_is_now_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRSHARE_CLOCK", raising=False)
    before = datetime.now(UTC)
    assert before <= clock.now() <= before + timedelta(minutes=1)
    assert clock.now().tzinfo is UTC


def test_an_instant_in_another_zone_is_given_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-03-01T12:00:00+02:00")
    assert clock.now() == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert clock.now().tzinfo is UTC


def test_a_file_is_read_again_at_every_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "clock"
    monkeypatch.setenv("FAIRSHARE_CLOCK", str(file))
    file.write_text("2026-03-01T12:00:00Z\n")
    assert clock.now() == datetime(2026, 3, 1, 12, tzinfo=UTC)
    file.write_text("2026-03-01T13:00:00Z\n")
    assert clock.now() == datetime(2026, 3, 1, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "says"),
    [("2026-03-01T12:00:00", "without a zone"), ("yesterday", "neither an instant nor a readable file")],
)
def test_an_invalid_instant_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, given: str, says: str) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", given)
    with pytest.raises(ImproperlyConfigured, match=says):
        clock.now()


def test_a_set_clock_outside_tests_is_refused_and_reported_by_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-03-01T12:00:00Z")
    assert clock.check_clock() == []
    monkeypatch.delenv("FAIRSHARE_TESTING")
    with pytest.raises(ImproperlyConfigured, match="sets the clock of a test"):
        clock.now()
    assert [error.id for error in clock.check_clock()] == ["fairshare.E001"]
