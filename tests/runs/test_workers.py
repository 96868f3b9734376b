"""The last contact of workers: one row, however many workers there are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.runs.workers import last_contact_at, record_contact
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
