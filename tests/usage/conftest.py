"""A source, and what its tables hold, in an order that doesn't depend on how it came about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.usage.models import Source
from apps.usage.parsers import lines, xml_records
from apps.usage.services import NewSource, make_source
from tests.instants import AT
from tests.lock_order import _one_order_of_locks  # noqa: F401 - fixture
from tests.lock_order import watch_of_changes as lock_watch  # noqa: F401 - fixture


@pytest.fixture
def source() -> Source:
    return make_source(NewSource(slug="cluster", name="The cluster"), at=AT, actor=COMMAND)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come in pieces of 64 KiB of lines, or of 50 records of XML."""
    block_bytes = 64 * 1024
    for name in ("_READ", "_BLOCK"):
        monkeypatch.setattr(lines, name, block_bytes)
    monkeypatch.setattr(xml_records, "_PIECE_RECORDS", 50)


@pytest.fixture
def stored() -> Callable[[], dict[str, list[tuple[Any, ...]]]]:
    """Records and buckets by name, without row numbers."""

    def read() -> dict[str, list[tuple[Any, ...]]]:
        with connection.cursor() as cursor:
            cursor.execute(_BUCKETS)
            buckets = cursor.fetchall()
            cursor.execute(_RECORDS)
            return {"buckets": buckets, "records": cursor.fetchall()}

    return read


_ACCOUNT = "account.namespace, account.user_name, account.group_name"
_CLASS = "job_class.queue, job_class.partition, job_class.qos"
_JOINS = """
JOIN accounts_account AS account ON account.id = account_id
JOIN usage_jobclass AS job_class ON job_class.id = job_class_id
JOIN usage_source AS source ON source.id = source_id
"""
_BUCKETS = f"""
SELECT source.slug, {_ACCOUNT}, usage_bucket.site, {_CLASS}, hour_at, cpu_s, gpu_s, mem_gb_s, node_s, billing, jobs
FROM usage_bucket {_JOINS} ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9
"""  # noqa: S608 - constants only
_RECORDS = f"""
SELECT source.slug, usage_record.cluster, job, array_task, submit_at, COALESCE(restart, 0), COALESCE(revision, 0),
    state, {_ACCOUNT}, {_CLASS}, usage_record.site, start_at, end_at, COALESCE(cpus, 1), COALESCE(gpus, 0),
    COALESCE(nodes, 0), COALESCE(mem_mb, 0), COALESCE(usage_record.billing, 0), requested_s
FROM usage_record {_JOINS} ORDER BY 1, 2, 3, 4, 5, 6
"""  # noqa: S608 - constants only


def hour(n: float) -> datetime:
    """An instant so many hours after midnight, well before AT."""
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=n)
