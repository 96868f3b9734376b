"""The last contact of workers: one row, however many workers there are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from apps.runs.workers import last_contact_at, record_contact
from tests.instants import AT

pytestmark = pytest.mark.django_db


def test_a_contact_is_stored_by_one_statement(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Two workers that first made contact at once collided, and the database logged an error."""
    assert last_contact_at() is None
    for at in (AT, AT + timedelta(minutes=1)):
        with django_assert_num_queries(1):
            record_contact(at)
        assert last_contact_at() == at
