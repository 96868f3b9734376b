from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import Databases
from tests.ring.instances import Server


@pytest.fixture(scope="module")
def server(databases: Databases) -> Iterator[Server]:
    """The suite's PostgreSQL, and a copy of its migrated test database."""
    template = databases.copy(databases.empty)
    databases.use(databases.empty)
    yield Server(databases.settings, template=template)
    databases.drop(template)
