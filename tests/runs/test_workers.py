"""The last contact of workers: one row, however many workers there are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from apps.runs.workers import beat_silent_since, last_contact_at, record_contact
from tests.instants import AT

pytestmark = pytest.mark.django_db


def test_a_contact_is_stored_by_one_statement() -> None:
    """Two workers that first made contact at once collided, and the database logged an error."""
    assert last_contact_at() is None
    for at in (AT, AT + timedelta(minutes=1)):
        with CaptureQueriesContext(connection) as queries:
            record_contact(at)
        (_statement,) = [one for one in queries.captured_queries if "runs_workercontact" in one["sql"]]
        assert last_contact_at() == at


def test_beat_works_when_it_has_stored_any_task_that_it_started() -> None:
    """After its start it stores the first one, which needn't be the most frequent one."""
    assert beat_silent_since(AT) is None
    every = IntervalSchedule.objects.create(every=10, period="seconds")
    for name, age in (("sweep-runs", timedelta(hours=1)), ("prune-runs", timedelta(hours=2))):
        PeriodicTask.objects.create(name=name, task="x", interval=every, last_run_at=AT - age)
    assert beat_silent_since(AT) == AT - timedelta(hours=1)
    PeriodicTask.objects.filter(name="prune-runs").update(last_run_at=AT - timedelta(seconds=1))
    assert beat_silent_since(AT) is None
