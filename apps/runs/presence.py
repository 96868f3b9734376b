"""Which processes of the site run, and whether they have in common what they must have.

Each process stores fingerprints of its keys, settings and release when it starts, and that it lives every half minute.
Processes of one site that differ are named by `/readyz`; one with other keys does not start beside them, because it
couldn't read what they wrote.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import secrets
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from apps.core import clock
from apps.core.release import code_digest
from apps.core.site_keys import KEY_FILES, site_keys
from apps.runs.models import SiteProcess
from apps.runs.worker_identity import has_ended, own_holder

logger = logging.getLogger(__name__)

_EVERY_S = 30.0
_LIVES_S = 100.0  # without a sign of life
_KEPT = timedelta(days=1)
CLOCK_S = 2.0  # by which two clocks may differ
_SETTINGS = (
    *("FAIRSHARE_SITE", "FAIRSHARE_ISSUER", "FAIRSHARE_TICK_S", "FAIRSHARE_SMALLEST_GROUP", "FAIRSHARE_LEASE_S"),
    *("FAIRSHARE_PLUGINS", "FAIRSHARE_PLUGINS_LEFT_OUT", "FAIRSHARE_KEEP_RECORDS_DAYS", "TIME_ZONE"),
)
_MARK = "folder-id"


@dataclass(frozen=True, slots=True)
class Difference:
    """What another live process of this site has otherwise. is_refused: both can't work beside each other.

    name: of the setting or key, `release` or `clock`. what: the same as words.
    """

    role: str
    host: str
    name: str
    what: str
    is_refused: bool

    def __str__(self) -> str:
        return f"{self.role} on {self.host} has another {self.what}"


@cache
def fingerprints() -> dict[str, Any]:
    """What all processes of a site have in common; of secrets only what can't be led back to them."""
    return {
        **{name: [_fingerprint(name, value) for value in values] for name, values in site_keys().items()},
        **{name: getattr(settings, name) for name in _SETTINGS},
        "CELERY_BROKER_URL": _fingerprint("broker", _broker()),
        "folder FAIRSHARE_VAR/uploads": _uploads_id(),
        "release": code_digest(),
    }


def _fingerprint(name: str, value: str) -> str:
    salt = f"fairshare:{name}".encode()
    return hashlib.scrypt(value.encode(), salt=salt, n=2**12, r=8, p=1, dklen=12).hex()


def _broker() -> str:
    """Files are as many brokers as there are folders."""
    url = str(settings.CELERY_BROKER_URL)
    return f"{url}{_uploads_id()}" if url.startswith("filesystem:") else url


def _uploads_id() -> str:
    """A name that the folder of uploads has on all hosts that see it."""
    path = Path(settings.VAR) / "uploads" / _MARK
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f"{_MARK}.{secrets.token_hex(6)}")
        draft.write_text(secrets.token_hex(12), encoding="ascii")
        with suppress(FileExistsError):  # of two that come first, one wins, and neither reads half
            os.link(draft, path)
        draft.unlink()
    return path.read_text(encoding="ascii")


def find_differences() -> list[Difference]:
    """What live processes have otherwise than this one."""
    rows = [row for row in live_processes() if row.holder != own_holder()]
    return [each for row in rows for each in _differences(row)]


def live_processes() -> list[SiteProcess]:
    """Processes that reported lately and have not ended, by host and role."""
    columns = [field.column for field in SiteProcess._meta.concrete_fields]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT clock_timestamp() - make_interval(secs => %s), (SELECT count(*) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attname = ANY(%s) AND NOT attisdropped)",
            [_LIVES_S, SiteProcess._meta.db_table, columns],
        )
        since, n_columns = cursor.fetchone()
    if n_columns < len(columns):  # before the first start, or before an upgrade
        return []
    rows = SiteProcess.objects.filter(seen_at__gt=since).order_by("host", "role", "id")
    return [row for row in rows if not has_ended(row.holder)]


def _differences(row: SiteProcess) -> Iterable[Difference]:
    own = fingerprints()
    for name in own:
        if name in row.shared and row.shared[name] != own[name]:
            is_refused = name in KEY_FILES and not set(row.shared[name]) & set(own[name])
            yield Difference(row.role, row.host, name, name, is_refused)
    if abs(row.clock_ahead_s) > CLOCK_S:
        what = f"clock than the database ({row.clock_ahead_s:+.0f} s)"
        yield Difference(row.role, row.host, "clock", what, is_refused=False)


def refusal() -> str:
    """Why this process must not start beside those that run; empty if it may, or if no database says so."""
    try:
        refused = [each for each in find_differences() if each.is_refused]
    except (DatabaseError, InterfaceError):
        return ""
    finally:
        if not connection.in_atomic_block:
            connection.close()
    if not refused:
        return ""
    named = "; ".join(sorted({str(each) for each in refused}))
    return f"This process can't read what others of the site wrote: {named}. Give all of them the same, or stop those."


def read_clocks() -> tuple[datetime, float]:
    """The database's clock, and by how many seconds this host's is ahead of it; 0 where a test sets the clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (database_at,) = cursor.fetchone()
    return database_at, 0.0 if clock.is_set() else (clock.now() - database_at).total_seconds()


def own_host() -> str:
    return platform.node()[:128]


def report(role: str, *, queues: Iterable[str] = ()) -> None:
    """Store that this process lives, with what it must have in common with the others. queues: that it consumes."""
    database_at, ahead_s = read_clocks()
    holder = own_holder() or f"{platform.node()}:{os.getpid()}"
    values = {"host": own_host(), "shared": fingerprints(), "seen_at": database_at, "queues": sorted(queues)}
    SiteProcess.objects.update_or_create(holder=holder, role=role, defaults={**values, "clock_ahead_s": ahead_s})
    SiteProcess.objects.filter(seen_at__lt=database_at - _KEPT).delete()


def keep_reporting(role: str, *, queues: Iterable[str] = ()) -> None:
    """Report from a thread of its own, until the process ends."""
    arguments = (role, sorted(queues), threading.Event())
    threading.Thread(target=_report_forever, args=arguments, daemon=True, name="presence").start()


def _report_forever(role: str, queues: Sequence[str], never: threading.Event) -> None:
    while True:
        try:
            report(role, queues=queues)
        except (DatabaseError, InterfaceError, OSError) as error:
            logger.warning("This process can't report that it lives: %s", error)
        finally:
            connection.close()
        never.wait(_EVERY_S)
