"""The scheduled backup: what keeps it from working is said at once, and monitoring sees it fail or grow late."""

from __future__ import annotations

import logging
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.cli.backup import programs
from apps.cli.backup.scheduled import back_up_when_due, try_schedule
from apps.cli.backup.settings_check import check_backup_programs, check_backup_settings
from apps.cli.doctor.check import Finding
from apps.cli.doctor.instance import check_backups
from apps.cli.tasks import back_up
from apps.core.errors import Invalid
from apps.pages.monitoring.degradations import degradations
from apps.runs.backup_state import (
    LATE_AFTER,
    age_of,
    backup_mark,
    forget_backups,
    note_schedule,
    note_success,
)
from tests.cli.test_backup import NOW, site
from tests.priority_site import Site

__all__ = ["site"]  # fixture
HOUR = timedelta(hours=1)


@pytest.fixture
def schedule(tmp_path: Path, settings: Any, db: None) -> Path:
    settings.FAIRSHARE_BACKUP_DIR = str(tmp_path / "daily")
    return tmp_path / "daily"


def codes(at: Any) -> set[str]:
    return {each["code"] for each in degradations(at) if each["subject"] == "backup"}


def found(at: Any) -> dict[str, str]:
    return {each.name: each.message for each in check_backups(at) if isinstance(each, Finding)}


def metrics(client: Client) -> dict[str, float]:
    lines = [line.split(" ") for line in client.get("/metrics").content.decode().splitlines()]
    return {name: float(value) for name, value in (line for line in lines if line[0].startswith("fairshare_backup_"))}


def test_a_failed_backup_is_seen_by_monitoring_until_a_good_one(
    schedule: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, client: Client
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", NOW.isoformat())
    assert metrics(client) == {}, "nothing was tried yet"
    refusal = Invalid("pg_dump failed: no luck")

    def fail(*_given: Any, **_more: Any) -> None:
        raise refusal

    monkeypatch.setattr("apps.cli.backup.scheduled.make_backup", fail)
    with caplog.at_level(logging.ERROR):
        assert [back_up(), back_up()] == ["", ""]
    assert caplog.messages == ["The backup by schedule failed: pg_dump failed: no luck"] * 2
    assert codes(NOW) == {"backup_failing"}
    assert metrics(client) == {"fairshare_backup_age_seconds": 0.0, "fairshare_backup_failures": 2.0}
    assert (
        found(NOW)["backup_failing"] == "The backup by schedule has failed, 2 tries in a row: pg_dump failed: no luck."
    )
    assert codes(NOW + LATE_AFTER + HOUR) == {"backup_failing", "backup_late"}
    note_success(NOW + LATE_AFTER + HOUR)
    assert codes(NOW + LATE_AFTER + 2 * HOUR) == set()


def test_a_new_schedule_is_late_after_two_days_and_not_at_once(schedule: Path) -> None:
    assert "backup_late" not in found(NOW)
    note_schedule(NOW)
    note_schedule(NOW + 24 * HOUR)
    assert codes(NOW + LATE_AFTER) == set()
    assert "backup_late" not in found(NOW + LATE_AFTER)
    assert codes(NOW + LATE_AFTER + HOUR) == {"backup_late"}
    assert "backup_late" in found(NOW + LATE_AFTER + HOUR)
    forget_backups()
    assert codes(NOW + LATE_AFTER + HOUR) == set(), "a restored instance begins its schedule anew"


def test_a_backup_of_a_clock_that_was_ahead_hides_no_later_failure(schedule: Path) -> None:
    note_schedule(NOW)
    note_success(NOW + 9000 * HOUR)
    mark = backup_mark()
    assert mark is not None
    assert age_of(mark, NOW + LATE_AFTER + HOUR) == LATE_AFTER + HOUR


def test_a_site_without_a_schedule_has_neither_metrics_nor_findings(db: None, client: Client) -> None:
    note_schedule(NOW)
    assert metrics(client) == {}
    assert codes(NOW + 9 * LATE_AFTER) == set()
    assert found(NOW + 9 * LATE_AFTER) == {}


def test_what_a_backup_needs_is_tried_at_the_start(
    schedule: Path, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_schedule()
    assert check_backup_settings() == check_backup_programs(["default"]) == []
    settings.FAIRSHARE_BACKUP_RECIPIENT = "age1nonsense"
    (refused,) = check_backup_settings()
    assert str(refused.msg) == "FAIRSHARE_BACKUP_RECIPIENT: 'age1nonsense' is no public key of age or SSH."
    assert found(NOW)["backup_fails"].endswith("'age1nonsense' is no public key of age or SSH.")
    with pytest.raises(CommandError, match="age1nonsense"):
        call_command("check")
    settings.FAIRSHARE_BACKUP_RECIPIENT = ""
    (tmp_path / "file").write_text("")
    settings.FAIRSHARE_BACKUP_DIR = str(tmp_path / "file" / "daily")
    assert "can't be written" in str(check_backup_settings()[0].msg)
    assert "can't be written" in found(NOW)["backup_fails"]
    settings.FAIRSHARE_BACKUP_DIR = "/proc/daily"  # where nobody can write
    assert "FAIRSHARE_BACKUP_DIR=/proc/daily can't be written" in found(NOW)["backup_fails"]
    settings.FAIRSHARE_BACKUP_DIR = str(schedule)
    old = tmp_path / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6'\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(programs, "find_binaries", lambda: tmp_path)
    monkeypatch.setattr(programs, "packaged_programs", lambda: None)
    monkeypatch.setattr(Path, "glob", lambda *_given: iter(()))
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    assert "needs its own pg_dump (here is 9)" in found(NOW)["backup_fails"]
    assert "needs its own pg_dump (here is 9)" in str(check_backup_programs(["default"])[0].msg)
    old.unlink()
    assert "needs its own pg_dump (none is here)" in found(NOW)["backup_fails"]
    assert not schedule.exists(), "an examination makes no folder"


@pytest.mark.django_db(transaction=True)
def test_a_good_backup_is_noted(site: Site, tmp_path: Path, settings: Any) -> None:
    settings.FAIRSHARE_BACKUP_DIR = str(tmp_path / "daily")
    assert back_up_when_due(at=NOW) is not None
    mark = backup_mark()
    assert mark is not None
    assert (mark.since_at, mark.made_at, mark.n_failures) == (NOW, NOW, 0)
