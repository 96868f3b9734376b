"""Publications without end: what a process holds of each ends with it, or is one of a bounded number."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from django.db import connection
from django.test import Client

from apps.core import mapped_columns
from apps.policies.tree import stored
from apps.priorities.delivered_usage import load_by_site
from apps.priorities.serving import shared_files, store
from tests.priority_site import AS_OF, Site, children

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(sys.platform != "linux", reason="open files are counted through /proc; run on Linux"),
]
_PAGES = ("", "history/", "changes/", "convergence/", "tree.csv")


class Held(NamedTuple):
    """What this process holds. maps: files of snapshots in its memory, deleted ones included."""

    files: int
    maps: int
    connections: int


def held() -> Held:
    gc.collect()
    folder = str(shared_files.directory())
    maps = {line.split(maxsplit=5)[4] for line in Path("/proc/self/maps").read_text().splitlines() if folder in line}
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return Held(len(os.listdir("/proc/self/fd")), len(maps), cursor.fetchone()[0])


def publish_often(site: Site, client: Client, first: int, n: int) -> None:
    for nth in range(first, first + n):
        site.publish(children(physics={"": 60, "alice": nth + 1, "bob": 1}, biology={"": 40, "carol": 3}))
        site.recompute()
        snapshot = store.newest(site.slug)
        assert snapshot.revision == site.policy.head_number
        assert snapshot.lookup(["alice"])[0].get("rank")
        load_by_site(policy=site.policy, tree=snapshot.tree, from_at=None, to_at=AS_OF)
        for page in _PAGES if nth % 10 in (0, 1) else ():
            assert client.get(f"/policy/{site.slug}/{page}").status_code == 200


@pytest.mark.deep
def test_a_publication_of_a_small_policy_leaves_nothing_open(site: Site, admin_client: Client) -> None:
    publish_often(site, admin_client, 0, 2)
    before = held()
    publish_often(site, admin_client, 2, 12)
    assert held() == before
    assert before.maps == 0, "a small file is read, not mapped"


def n_rows() -> dict[str, int]:
    counts = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT count(*) FROM "{table}"')  # noqa: S608 - names of this database's tables
            counts[table] = cursor.fetchone()[0]
    return counts


# What a publication with its recompute adds on purpose: history for ever, snapshots and runs for as long as set.
_ADDED = {
    "accounts_auditevent": 2,
    "policies_changeset": 1,
    "policies_entry": 1,
    "policies_revision": 1,
    "priorities_snapshot": 1,
    "runs_run": 1,
}


@pytest.mark.deep
@pytest.mark.timeout(3_000)
def test_two_thousand_publications_hold_what_a_hundred_held(
    site: Site, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_columns, "MAPPED_BYTES", 0)  # as the files of a large policy
    stored.tree_cache.clear()
    publish_often(site, admin_client, 0, 120)
    before, rows = held(), n_rows()
    for part in range(4):
        publish_often(site, admin_client, 120 + 500 * part, 500)
        assert held() == before, f"after {500 * part + 500} publications"
    assert before.maps <= 110
    added = {table: n - rows[table] for table, n in n_rows().items() if n != rows[table]}
    assert added == {table: 2_000 * n for table, n in _ADDED.items()}
