"""Checks of this host and its release: settings, versions, disk and clock."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.core import checks
from django.db import DatabaseError, connection

from apps.accounts.clock_watch import unconfirmed_jump
from apps.cli.backup.drafts import abandoned_folders
from apps.cli.backup.making import abandoned_drafts
from apps.cli.backup.scheduled import newest_backup_at, try_schedule
from apps.cli.backup.settings_check import BACKUP_IDS
from apps.cli.doctor.check import Finding, Level
from apps.cli.stack.postgres import OLDEST_VERSION
from apps.cli.stack.shared_check import DIFFERENT_IDS
from apps.core.code_paths import command_name
from apps.core.counts import counted
from apps.core.errors import DomainError
from apps.core.pending_migrations import label_of, pending_migrations
from apps.core.release import release_name
from apps.pages.monitoring.degradations import disks_without_room
from apps.runs.backup_state import LATE_AFTER, age_of, backup_mark
from apps.runs.models import BackupMark
from apps.runs.presence import CLOCK_S, find_differences, live_processes, own_host, read_clocks
from apps.series.storage_growth import files_holding, list_holdings, shown_size, total

_OF_OTHER_SECTIONS = frozenset((*DIFFERENT_IDS, *BACKUP_IDS))  # which have findings of their own
_HOSTS = 'See "Several hosts and processes" in docs/operate.md.'
_LEAST_DAYS_OF_FREE_DISK = 30
_MOST_LISTED_FILES = 5


def check_settings(at: datetime) -> Iterator[str | Finding]:
    """Django's system checks and ours; in production also those of a deployment's security."""
    yield "production" if settings.PRODUCTION else "not for production (FAIRSHARE_PRODUCTION is off)"
    yield from _messages(checks.run_checks())
    if settings.PRODUCTION:
        every = checks.run_checks(tags=[checks.Tags.security], include_deployment_checks=True)
        yield from _messages(every)


def _messages(messages: Iterable[checks.CheckMessage]) -> Iterator[Finding]:
    for message in messages:
        if message.is_silenced() or message.id in _OF_OTHER_SECTIONS:
            continue
        level: Level = "bad" if message.level >= checks.ERROR else "warn" if message.level >= checks.WARNING else "info"
        remedy = " ".join(str(message.hint or "Change it: docs/settings.md describes each setting.").split())
        yield Finding(str(message.id or "check"), level, str(message.msg), remedy)


def check_versions(at: datetime) -> Iterator[str | Finding]:
    server = connection.cursor().connection.info.server_version // 10_000
    roles = Counter(process.role for process in live_processes())
    yield f"fairshare-web {release_name()}, Python {platform.python_version()}, PostgreSQL {server}"
    yield "processes: " + (", ".join(f"{n} {role}" for role, n in sorted(roles.items())) or "none")
    if server < OLDEST_VERSION:
        message = f"PostgreSQL {server} is older than {OLDEST_VERSION}."
        yield Finding("old_postgresql", "bad", message, f"Upgrade the server to PostgreSQL {OLDEST_VERSION} or newer.")
    if pending := pending_migrations():
        n, first = counted(len(pending), "migration"), label_of(pending[0])
        message = f"The database lacks {n} of this release, the first is {first}."
        yield Finding("pending_migrations", "bad", message, f"Run `{command_name('serve prepare')}`: docs/upgrade.md.")
    yield from _messages(checks.run_checks(tags=[checks.Tags.database], databases=["default"]))
    for each in find_differences():
        if each.name != "clock":
            yield Finding("processes_differ", "bad" if each.is_refused else "warn", f"The {each}.", _HOSTS)


def check_disk(at: datetime) -> Iterator[str | Finding]:
    """Room on disks, and growth per day from what is stored."""
    for disk in disks_without_room():
        remedy = "Free room, or move the folder: see FAIRSHARE_VAR in docs/settings.md."
        yield Finding(disk["code"], "bad", f"{disk['subject']} {disk['message']}.", remedy)
    var = Path(settings.VAR)
    room = os.statvfs(var)
    free = room.f_bavail * room.f_frsize
    yield f"{shown_size(free)} free at {var}"
    try:
        used, in_a_year = total([*list_holdings(at=at), files_holding()])
    except DatabaseError:
        yield "growth is unknown: the database doesn't count its rows in time"
        return
    per_day = (in_a_year - used) / 365
    parts = f"`{command_name('storage')}` has the parts"
    yield f"{shown_size(used)} stored, {shown_size(max(per_day, 0))} more a day ({parts})"
    if not settings.FAIRSHARE_EMBEDDED_DATABASE:
        yield "the room of the database is its server's"
    elif per_day > 0 and free / per_day < _LEAST_DAYS_OF_FREE_DISK:
        days = counted(int(free / per_day), "day")
        message = f"At the growth of the last 30 days, the disk of {var} is full in {days}."
        remedy = f"Give it more room, or keep less: `{command_name('storage')}`, and FAIRSHARE_KEEP_RECORDS_DAYS."
        yield Finding("disk_fills", "warn", message, remedy)


def check_backups(at: datetime) -> Iterator[str | Finding]:
    """The newest backup that the schedule has made, and what killed ones left."""
    yield from _abandoned_drafts()
    if not settings.FAIRSHARE_BACKUP_DIR:
        yield "none by schedule: FAIRSHARE_BACKUP_DIR is not set"
        return
    folder, mark = Path(settings.FAIRSHARE_BACKUP_DIR), _backup_mark()
    newest_at = newest_backup_at(folder, at)
    yield f"the newest in {folder} is of {newest_at:%FT%TZ}" if newest_at else f"{folder} has none"
    by_hand = f"Run `{command_name('backup')} --dir {folder}` by hand: it says what fails."
    try:
        try_schedule()
    except DomainError as error:
        yield Finding("backup_fails", "bad", f"The next backup by schedule will fail: {error}", by_hand)
    except DatabaseError:
        yield "the version of pg_dump is unknown: the database doesn't answer"
    if mark is not None and mark.n_failures:
        tries = counted(mark.n_failures, "try", "tries")
        message = f"The backup by schedule has failed, {tries} in a row: {mark.error.rstrip('.')}."
        yield Finding("backup_failing", "bad", message, by_hand)
    if (mark is not None and age_of(mark, at) > LATE_AFTER) if newest_at is None else at - newest_at > LATE_AFTER:
        message = f"{folder} has no backup of the last {counted(LATE_AFTER.days, 'day')}."
        yield Finding("backup_late", "bad", message, f"{by_hand} Beat and workers have to run, too.")


def _backup_mark() -> BackupMark | None:
    try:
        return backup_mark()
    except DatabaseError:
        return None


def _abandoned_drafts() -> Iterator[Finding]:
    left = [*abandoned_folders(Path(settings.VAR))]
    if settings.FAIRSHARE_BACKUP_DIR:
        left += abandoned_drafts(Path(settings.FAIRSHARE_BACKUP_DIR))
    if left:
        listed = ", ".join(str(path) for path in left[:_MOST_LISTED_FILES]) + (
            " …" if len(left) > _MOST_LISTED_FILES else ""
        )
        message = (
            f"Killed backups or restores left {counted(len(left), 'file or folder', 'files or folders')}: {listed}."
        )
        remedy = "They have keys and records in plain. The next backup removes them, or remove them by hand."
        yield Finding("abandoned_backups", "warn", message, remedy)


def check_clock(at: datetime) -> Iterator[str | Finding]:
    """This host's clock and those of the others, compared with the database's and with each other."""
    remedy = "Keep the clocks of all hosts synchronised, with chrony or systemd-timesyncd, and the database's too."
    ahead_s = {process.host: process.clock_ahead_s for process in live_processes()}
    ahead_s[own_host()] = read_clocks()[1]
    yield ", ".join(f"{host} {seconds:+.1f} s" for host, seconds in sorted(ahead_s.items())) + " to the database"
    wrong = {host: seconds for host, seconds in ahead_s.items() if abs(seconds) > CLOCK_S}
    for host, seconds in sorted(wrong.items()):
        word = "ahead of" if seconds > 0 else "behind"
        message = f"The clock of {host} is {abs(seconds):,.0f} s {word} the database's."
        yield Finding("clock_differs", "bad", message, remedy)
    if not wrong and max(ahead_s.values()) - min(ahead_s.values()) > CLOCK_S:
        first, last = min(ahead_s, key=ahead_s.__getitem__), max(ahead_s, key=ahead_s.__getitem__)
        message = f"The clocks of {first} and {last} differ by {ahead_s[last] - ahead_s[first]:.1f} s."
        yield Finding("clocks_of_hosts_differ", "warn", message, remedy)
    if since_at := unconfirmed_jump():
        message = f"The clock has jumped ahead, first read at {since_at:%FT%TZ}: retention and dates of shares wait."
        later = "Correct the clock. A right one is believed after 15 minutes: see The clock in docs/operate.md."
        yield Finding("clock_jumped", "warn", message, later)
