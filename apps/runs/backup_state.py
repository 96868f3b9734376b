"""How the scheduled backup does: the last good one, and failures since. Workers note it, every process may read it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from apps.core.counts import counted
from apps.runs.models import BackupMark

EVERY = timedelta(days=1)
LATE_AFTER = 2 * EVERY  # the second in a row has failed by then
_LONGEST_BACKUP_ERROR = 500  # characters


def backup_mark() -> BackupMark | None:
    """None where the site makes no backups by schedule, or has not tried one yet."""
    return BackupMark.objects.filter(pk=BackupMark.ONLY).first() if settings.FAIRSHARE_BACKUP_DIR else None


def note_schedule(at: datetime) -> None:
    """A first backup is late some time after the schedule began, not at once."""
    BackupMark.objects.bulk_create([BackupMark(pk=BackupMark.ONLY, since_at=at)], ignore_conflicts=True)


def note_success(at: datetime) -> None:
    BackupMark.objects.filter(pk=BackupMark.ONLY).update(made_at=at, n_failures=0, error="")


def note_failure(error: str) -> None:
    marks = BackupMark.objects.filter(pk=BackupMark.ONLY)
    marks.update(n_failures=F("n_failures") + 1, error=" ".join(error.split())[:_LONGEST_BACKUP_ERROR])


def forget_backups() -> None:
    """Of a restored instance: its marks are of another place and time."""
    BackupMark.objects.all().delete()


def age_of(mark: BackupMark, at: datetime) -> timedelta:
    """Since the last good backup, or since the schedule began. Instants of a clock that was ahead don't count."""
    known = [each for each in (mark.made_at, mark.since_at) if each is not None and each <= at]
    return at - max(known) if known else timedelta(0)


def backup_degradations(at: datetime) -> Iterator[dict[str, str]]:
    """Without the error, because /readyz is open to all; `doctor` and the workers' log have it."""
    mark = backup_mark()
    if mark is None:
        return
    since = f"the last good one is of {mark.made_at:%FT%TZ}" if mark.made_at else "there has been none yet"
    if mark.n_failures:
        message = f"the backup by schedule has failed {counted(mark.n_failures, 'time')}; {since}"
        yield {"code": "backup_failing", "subject": "backup", "message": message}
    if age_of(mark, at) > LATE_AFTER:
        yield {"code": "backup_late", "subject": "backup", "message": since}
