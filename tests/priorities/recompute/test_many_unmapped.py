"""Policies that were published before their rules: every account is unmapped, in tables that were never analysed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.priority_site import AS_OF, PROJECTS, Site

N_ACCOUNTS = 235_200  # as many as made both workers of a site hang

_ACCOUNTS = """
INSERT INTO accounts_account (namespace, user_name, group_name, dn, fqan, project, first_seen_at)
SELECT 'c1', 'user' || n, 'group' || n %% 97, '', '', '', %s FROM generate_series(1, %s) AS n
"""
_BUCKETS = """
INSERT INTO usage_bucket
    (source_id, account_id, site, job_class_id, hour_at, cpu_s, gpu_s, mem_gb_s, node_s, billing, jobs)
SELECT %s, id, '', %s, %s, 3600, 0, 0, 0, 0, 1 FROM accounts_account
"""


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_recomputes_of_many_unmapped_accounts_end_in_time(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = [make_site(slug) for slug in ("one", "two", "three", "four")]
    for site in sites:
        site.publish(PROJECTS)
    sites[0].job("nobody", "nowhere", 1)
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, [AS_OF, N_ACCOUNTS - 1])
        cursor.execute("SELECT job_class_id FROM usage_bucket LIMIT 1")
        job_class = cursor.fetchone()[0]
        cursor.execute("DELETE FROM usage_bucket")
        cursor.execute(_BUCKETS, [sites[0].source.pk, job_class, AS_OF - timedelta(hours=2)])
        cursor.execute("SET LOCAL statement_timeout = '60s'")
        # The worst plan that missing statistics lead to: as a nested loop, a join of all with all takes hours.
        cursor.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
    for tick in (1, 2, 3):
        for site in sites:
            monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(minutes=tick)).isoformat())
            at = AS_OF + timedelta(minutes=tick)
            began_s = time.monotonic()
            run = queue_recompute(Policy.objects.get(slug=site.slug), at=at)
            done = work_run_now(run.pk)
            print(f"recompute {tick} of {site.slug}: {time.monotonic() - began_s:.1f} s")
            assert done.state == "succeeded", done.error
    assert store.newest("four").meta["n_unmapped"] == N_ACCOUNTS
