"""Recent usage of all accounts, from which the page *Accounts* has its sums."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from apps.mapping.moves import DAYS, load_recent_accounts
from apps.usage.models import Bucket
from tests.priority_site import AS_OF, Site

pytestmark = pytest.mark.django_db
_CORE_S = """
SELECT account_id, sum(cpu_s) FROM usage_bucket WHERE hour_at >= %s AND hour_at <= %s GROUP BY account_id
"""


@pytest.mark.parametrize("later", [timedelta(0), timedelta(minutes=-AS_OF.minute), timedelta(days=DAYS - 2)])
def test_recent_core_seconds_are_those_of_the_buckets(site: Site, later: timedelta) -> None:
    site.job("dan", "nowhere", 3, ago_h=30 * 24)
    at = AS_OF + later
    assert Bucket.objects.filter(hour_at__lt=AS_OF - timedelta(days=29)).exists()
    accounts, core_s = load_recent_accounts(at=at)
    with connection.cursor() as cursor:
        cursor.execute(_CORE_S, [at - timedelta(days=DAYS), at])
        expected = {pk: used for pk, used in cursor.fetchall() if used}
    got = {pk: used for pk, used in zip(accounts.ids.tolist(), core_s.tolist(), strict=True) if used}
    assert got == expected
    assert [key.user_name for key in accounts.keys] == ["alice", "bob", "carol", "dan"]
