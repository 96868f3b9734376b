from __future__ import annotations

import pytest
from pytest_django import DjangoDbBlocker

from tests.ring.instances import Server


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Server:
    """The suite's PostgreSQL; its test database is migrated and has nothing in it between two tests."""
    from django.db import connection, connections

    with django_db_blocker.unblock():
        found = Server(dict(connection.settings_dict), template=str(connection.settings_dict["NAME"]))
        connections.close_all()
    return found
