"""Recent usage of all accounts, from which the page *Accounts* has its sums."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection

from apps.accounts.account_keys import AccountKey
from apps.accounts.entry_accounts import entry_account
from apps.accounts.models import Account
from apps.mapping.moves import DAYS, Move, UnmappedUsage, load_recent_accounts, usage_of_unmapped
from apps.mapping.rules.resolver import UNMAPPED
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


def test_usage_that_would_be_unmapped_is_that_of_accounts_and_entries_of_peers_are_counted_apart(site: Site) -> None:
    alice = Account.objects.get(user_name="alice")
    key = AccountKey("c1", "alice", "physics")
    own = Move(alice.pk, key, 3, UNMAPPED, was_free=False, is_free=True)
    of_peers = [own._replace(account=10**6 + n, key=entry_account(UUID(int=n))) for n in (1, 2, 3)]
    assert usage_of_unmapped([own, *of_peers], at=AS_OF) == UnmappedUsage([alice.pk], 40 * 3600.0, 3)
    assert usage_of_unmapped(of_peers, at=AS_OF) == UnmappedUsage([], 0.0, 3)
    is_any = [bool(usage_of_unmapped(moves, at=AS_OF)) for moves in ([own], of_peers, [])]
    assert is_any == [True, True, False]
