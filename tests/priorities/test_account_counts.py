"""The number of accounts with usage of each source is always what its buckets say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection, transaction

from apps.usage import account_counts as counts_module
from apps.usage.account_counts import AccountCounts
from apps.usage.changed_hours import note_change
from apps.usage.models import Bucket, Source
from apps.usage.pgbinary import fetch_columns
from apps.usage.sources.services import set_archived
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db(transaction=True)  # what isn't committed is never kept


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    made = make_site()
    made.publish(PROJECTS)
    for ago_h in (2, 30, 24 * 9):
        made.job("alice", "physics", 1, ago_h=ago_h)
    made.job("carol", "biology", 2, ago_h=40)
    return made


def sums_of_buckets() -> dict[int, int]:
    return {
        source.pk: Bucket.objects.filter(source=source).values("account_id").distinct().count()
        for source in Source.all_objects.all()
    }


def ids() -> list[int]:
    return list(Source.all_objects.values_list("pk", flat=True))


def remove_buckets(source: Source, **of: Any) -> None:
    """As undoing an import does."""
    with transaction.atomic():
        gone = Bucket.objects.filter(source=source, **of)
        first = gone.order_by("hour_at").values_list("hour_at", flat=True).first()
        if first is not None:
            note_change(source.pk, first)
            gone.delete()
            Source.objects.filter(pk=source.pk).update(watermark=source.watermark + 1)
    source.refresh_from_db()


def test_counts_follow_changes_of_any_hour(site: Site) -> None:
    random, counts = Random(5), AccountCounts()
    source = Source.objects.get()
    for number in range(30):
        if random.random() < 0.7:
            site.job(f"user{random.randrange(8)}", "physics", 1, ago_h=random.randrange(3, 900))
        else:
            source.refresh_from_db()
            remove_buckets(source, hour_at__gte=AS_OF - timedelta(hours=random.randrange(900)))
        if number % 3 != 1:
            assert counts.count(ids()) == sums_of_buckets(), number


def test_after_a_change_only_the_changed_hours_are_read(site: Site) -> None:
    counts, starts = AccountCounts(), []
    read = fetch_columns

    def noted(query: str, parameters: Any) -> Any:
        starts.append((AS_OF.timestamp() - parameters[0]) / 3600)
        return read(query, parameters)

    with patch.object(counts_module, "fetch_columns", noted):
        counts.count(ids())
        counts.count(ids())
        assert len(starts) == 1, "nothing has changed"
        site.job("dave", "physics", 1, ago_h=5)
        assert counts.count(ids()) == sums_of_buckets()
    assert len(starts) == 2
    assert starts[1] <= 7


def test_an_archived_source_and_one_that_is_restored_are_counted(site: Site) -> None:
    counts, source = AccountCounts(), Source.objects.get()
    assert counts.count(ids()) == {source.pk: 2}
    for is_archived in (True, False):
        with transaction.atomic():
            set_archived(source.pk, AS_OF if is_archived else None)
        assert counts.count(ids()) == {source.pk: 2}
    site.job("erin", "physics", 1, ago_h=3)
    assert counts.count(ids()) == {source.pk: 3}


def test_nothing_is_kept_of_a_transaction_that_is_rolled_back(site: Site) -> None:
    counts, source = AccountCounts(), Source.objects.get()
    assert counts.count(ids()) == {source.pk: 2}
    with transaction.atomic():
        remove_buckets(source)
        assert counts.count(ids()) == {}
        transaction.set_rollback(True)
    assert counts.count(ids()) == {source.pk: 2}


def test_more_accounts_than_memory_is_for_are_counted_each_time(site: Site) -> None:
    counts = AccountCounts()
    with patch.object(counts_module, "_MOST_KEPT_ACCOUNTS", 1):
        for _ in range(2):
            assert counts.count(ids()) == sums_of_buckets()
            assert len(counts._account) == 0


def test_ids_above_two_to_the_sixteen_stay_apart(site: Site) -> None:
    counts = AccountCounts()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO usage_bucket (hour_at, source_id, account_id, job_class_id, site, cpu_s, gpu_s, mem_gb_s,"
            " node_s, billing, jobs) SELECT hour_at, source_id, 2147483647, job_class_id, site, 1, 0, 0, 0, 0, 1"
            " FROM usage_bucket LIMIT 1"
        )
    assert counts.count(ids()) == sums_of_buckets()
