"""The launcher of the embedded database survives what happens to databases."""

from __future__ import annotations

import pytest


@pytest.mark.django_db
def test_the_tests_run_on_the_embedded_postgresql() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone() == ("",)
