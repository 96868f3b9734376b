"""The notice of backups that fail."""

from __future__ import annotations

from pathlib import Path

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.kinds import kind_of
from apps.contrib.notices.models import Notice
from apps.contrib.notices.selectors import list_notices
from apps.runs.backup_state import LATE_AFTER, note_failure, note_schedule, note_success
from tests.cli.test_backup import NOW
from tests.cli.test_backup_schedule import HOUR, schedule

__all__ = ["schedule"]  # fixture


def test_administrators_get_a_notice_of_a_failing_backup_until_a_good_one(schedule: Path) -> None:
    note_schedule(NOW)
    note_success(NOW)
    evaluate(at=NOW, only=["backup_failing"])
    assert list(Notice.objects.filter(kind="backup_failing")) == []
    note_failure("pg_dump failed: no luck")
    evaluate(at=NOW, only=["backup_failing"])
    notice = Notice.objects.get(kind="backup_failing", closed_at=None)
    text = "The last try of a backup failed. The last good backup is of 20 Nov 2026. The last error: pg_dump failed:"
    assert kind_of("backup_failing").describe(notice.facts).text == f"{text} no luck"
    assert notice.level == "warn"
    for is_admin in (False, True):
        person = User.objects.create_user(f"person-{is_admin}", is_superuser=is_admin, is_staff=is_admin)
        lines = list_notices(at=NOW, actor=Actor(user=person, via="page"))
        assert [line.notice for line in lines] == ([notice] if is_admin else [])
    evaluate(at=NOW + LATE_AFTER + HOUR, only=["backup_failing"])
    notice.refresh_from_db()
    assert notice.level == "bad"
    note_success(NOW + LATE_AFTER + HOUR)
    evaluate(at=NOW + LATE_AFTER + HOUR, only=["backup_failing"])
    assert not Notice.objects.filter(kind="backup_failing", closed_at=None).exists()
