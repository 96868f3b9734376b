"""A real grid's log from file to page: LCG 2005, 188,041 jobs of 28 organisations at 170 sites.

The log is from the Parallel Workloads Archive (provider: Hui Li). It is read from its own folder and never copied here.
"""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.services import make_user

pytestmark = [pytest.mark.product, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
JOBS = 188_041
# As printed beside the log.
GROUP_SHARES = {"4": 0.6719, "1": 0.0912, "16": 0.0743, "2": 0.0500, "11": 0.0255, "21": 0.0199}
SITE_SHARES = {"40": 0.2292, "52": 0.1564, "41": 0.1145, "8": 0.0477}
CONTENT_TABLES = ("usage_record", "usage_bucket", "accounts_account", "usage_source")


@pytest.fixture
def log(traces_dir: Path) -> Path:
    return traces_dir / "LCG-2005-1.swf.gz"


@pytest.fixture
def client() -> Client:
    user, _ = make_user(username="root", email="", password="a long enough phrase", is_admin=True, actor=COMMAND)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def _run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def _import(log: Path) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads(_run("import_usage", "--source", "lcg", "--format", "swf", "--json", str(log)))
    return counts


def _contents() -> dict[str, Any]:
    """A checksum of every row of what usage is made of."""
    found = {}
    with connection.cursor() as cursor:
        for table in CONTENT_TABLES:
            cursor.execute(f"SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {table} t")  # noqa: S608
            found[table] = cursor.fetchone()
    return found


@pytest.mark.deep
def test_the_lcg_shares_are_as_printed_on_page_and_by_rest(log: Path, client: Client) -> None:
    counts = _import(log)
    assert (counts["new"], counts["duplicate"], counts["rejected"]) == (JOBS, 0, 0)
    before = _contents()
    again = _import(log)
    assert (again["new"], again["duplicate"], again["corrected"], again["rejected"]) == (0, JOBS, 0, 0)
    after = _contents()
    assert after["usage_record"] == before["usage_record"]
    assert after["usage_bucket"] == before["usage_bucket"]
    assert after["accounts_account"] == before["accounts_account"]

    _run(
        "propose_policy",
        "--policy",
        "lcg",
        "--from-source",
        "lcg",
        "--proportional",
        "--publish",
        "--reason",
        "As it was used.",
    )
    _run("recompute", "lcg", "--wait")

    tree = client.get("/api/v1/policies/lcg/tree?depth=1").json()
    actual = {entry["name"]: entry["actual"] for entry in tree["children"]}
    assert len(actual) == 28
    assert {name: round(actual[name], 4) for name in GROUP_SHARES} == GROUP_SHARES

    page = client.get("/policy/lcg/").content.decode()
    for name in GROUP_SHARES:
        assert f'title="{actual[name] * 100:.4f}\u00a0%">{actual[name] * 100:.1f}\u00a0%<' in page

    assert {site: round(share, 4) for site, share in _site_shares(client).items() if site in SITE_SHARES} == SITE_SHARES


def _site_shares(client: Client) -> dict[str, float]:
    totals: dict[str, float] = {}
    url = "/api/v1/usage/buckets?source=lcg&step=day"
    while url:
        page = client.get(url).json()
        for bucket in page["results"]:
            totals[bucket["site"]] = totals.get(bucket["site"], 0.0) + bucket["cpu_s"]
        url = f"/api/v1/usage/buckets?source=lcg&step=day&cursor={page['next']}" if page["next"] else ""
    whole = sum(totals.values())
    return {site: total / whole for site, total in totals.items()}
