from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.ring.instances import Server


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The suite's PostgreSQL, and a copy of its migrated test database, which is empty between two tests."""
    from django.db import connection, connections

    with django_db_blocker.unblock():
        settings = dict(connection.settings_dict)
        connections.close_all()
    made = Server(settings, template=f"{settings['NAME']}_ring")
    drop = f'DROP DATABASE IF EXISTS "{made.template}" WITH (FORCE)'
    made.execute(drop, f'CREATE DATABASE "{made.template}" TEMPLATE "{settings["NAME"]}"')
    yield made
    made.execute(drop)
