"""Beat with the schedule in the database, which ends instead of ticking without entries. A second one stands by."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connection
from django_celery_beat.schedulers import DatabaseScheduler

from apps.core.plugins import keyed
from apps.runs.worker_identity import has_ended, own_holder

log = logging.getLogger(__name__)

_SLACK = timedelta(seconds=5)  # by which clocks are adjusted all the time
_RENEW_S, _LEASE_S = 5.0, 30.0
_LEASE = """
INSERT INTO runs_beatlease AS lease (id, holder, until)
VALUES (1, %(holder)s, clock_timestamp() + make_interval(secs => %(lease_s)s))
ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder IN (excluded.holder, %(ended)s) OR lease.until < clock_timestamp()
    OR lease.until > clock_timestamp() + make_interval(secs => %(lease_s)s) -- its clock was set back
RETURNING id
"""
_LEAST_LIFE_S = 600  # of a message: more than the clocks of two hosts may differ by


def _options(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Those of its messages: what nobody has taken for so long has been rung for again."""
    return {**entry.get("options", {}), "expire_seconds": int(max(_LEAST_LIFE_S, entry["schedule"]))}


class Scheduler(DatabaseScheduler):  # type: ignore[misc] # the package has no types
    """An entry that could not be stored (the database was away) is only logged: beat would never ring for it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Celery's own handlers store the schedule where the signal comes, in the middle of a query too: beat would then
        # wait forever for the connection it uses itself. Its loop stores the schedule when it ends.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit())
        self._leads, self._holder = False, own_holder() or f"{socket.gethostname()}:{os.getpid()}"
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """Ring what is due, if this beat leads; returns the seconds until the next tick.

        After the clock was set back, every entry runs again from now on, not when the old time comes again.
        """
        led, self._leads = self._leads, self._renew_lease()
        if not self._leads:
            return _RENEW_S
        if not led:  # the one before has rung since this one read the schedule
            self._schedule = self.all_as_schedule()
            self._heap = None
        entries = (self._schedule or {}).values()
        late = [entry for entry in entries if entry.last_run_at > entry._default_now() + _SLACK]
        for entry in late:
            entry.last_run_at = entry.model.last_run_at = entry._default_now()
            self._dirty.add(entry.name)  # else the next read of the table brings the old time back
        if late:
            self._heap = None  # it is ordered by the old time
        return min(super().tick(*args, **kwargs), _RENEW_S)

    def _renew_lease(self) -> bool:
        """Whether this beat leads. Without the database nobody does: workers couldn't work either."""
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT holder FROM runs_beatlease WHERE id = 1")
                (before,) = cursor.fetchone() or ("",)
                ended = before if has_ended(before) else self._holder
                cursor.execute(_LEASE, {"holder": self._holder, "ended": ended, "lease_s": _LEASE_S})
                return cursor.fetchone() is not None
        except DatabaseError as error:
            log.warning("The database doesn't answer, beat waits: %s", error)
            connection.close()
            return False

    def setup_schedule(self) -> None:
        """Entries of the core and of installed plug-ins; those of a plug-in that was left out go."""
        added = keyed("schedule").items()
        entries = {**self.app.conf.beat_schedule}  # the settings' own: they stay as they are
        entries |= {name: {"task": task, "schedule": every_s} for name, (task, every_s) in added}
        self.app.conf.beat_schedule = {name: {**entry, "options": _options(entry)} for name, entry in entries.items()}
        self.app.loader.import_default_modules()
        unknown = self.Model.objects.exclude(task__startswith="celery.").exclude(task__in=self.app.tasks)
        unknown.delete()  # a worker would refuse the task each time
        super().setup_schedule()
        wanted = set(self.app.conf.beat_schedule)
        stored = set(self.Model.objects.filter(name__in=wanted).values_list("name", flat=True))
        if wanted - stored:
            raise RuntimeError(f"Not in the schedule: {', '.join(sorted(wanted - stored))}. Start beat again.")
