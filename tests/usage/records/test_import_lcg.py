"""The whole LCG log: 188,041 jobs, and the shares that are printed beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.runs.services import work_run_now
from apps.usage.models import Import, Source
from apps.usage.selectors import BucketQuery, list_buckets
from apps.usage.services import NewImport, start_import
from tests.instants import AT

GROUPS = {"4": 0.6719, "1": 0.0912, "16": 0.0743, "2": 0.0500, "11": 0.0255, "21": 0.0199}
SITES = {"40": 0.2292, "52": 0.1564, "41": 0.1145, "8": 0.0477}

pytestmark = pytest.mark.django_db(transaction=True)


def import_file(path: Path, *, dry_run: bool = False) -> Import:
    with path.open("rb") as file:
        made = start_import(
            NewImport(source_slug="cluster", format="auto", file=file, file_name=path.name, dry_run=dry_run),
            at=AT,
            actor=COMMAND,
        )
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    return Import.objects.select_related("run").get(pk=made.pk)


def shares_by(column: str) -> dict[str, float]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {column}, sum(cpu_s) / (SELECT sum(cpu_s) FROM usage_bucket) FROM usage_bucket"  # noqa: S608
            " JOIN accounts_account AS account ON account.id = account_id GROUP BY 1"
        )
        return dict(cursor.fetchall())


@pytest.mark.deep
@pytest.mark.timeout(300)  # three passes over the whole log, perhaps beside other tests
def test_all_lcg_jobs_give_the_printed_shares_and_a_second_import_changes_nothing(
    traces_dir: Path,
    source: Source,
    stored: Callable[[], dict[str, list[tuple[Any, ...]]]],
    pytestconfig: pytest.Config,
) -> None:
    log = traces_dir / "LCG-2005-1.swf.gz"
    if pytestconfig.getoption("deep"):  # test_imports.py compares a dry run of fewer lines in every run
        dry = import_file(log, dry_run=True)
        assert dry.run.counts["new"] == 188_041
        assert stored() == {"buckets": [], "records": []}

    started = time.monotonic()
    done = import_file(log)
    print(f"LCG import: {time.monotonic() - started:.1f} s")
    nothing = dict.fromkeys(("duplicate", "corrected", "late", "too_late", "rejected"), 0)
    expected = {"new": 188_041, **nothing, "lines": 188_229}
    assert done.run.counts == expected
    assert done.run.result["notes"]["wait_unknown"] == 188_041
    assert done.run.result["cpu_s"] / 3600 == pytest.approx(417_370, abs=0.5)
    assert done.run.result["n_accounts"] == 231
    groups = shares_by("group_name")
    assert {name: round(groups[name], 4) for name in GROUPS} == GROUPS
    assert len(groups) == 28

    rows = list_buckets(BucketQuery(source="cluster", step="day", by="site", limit=10_000), actor=COMMAND)
    total = sum(row.cpu_s for row in rows)
    sites = {name: round(sum(row.cpu_s for row in rows if row.site == name) / total, 4) for name in SITES}
    assert sites == SITES

    before, watermark = stored(), Source.objects.get().watermark
    again = import_file(log)
    assert again.run.counts == {**expected, "new": 0, "duplicate": 188_041}
    assert again.run.result["cpu_s"] == 0
    assert stored() == before
    assert Source.objects.get().watermark == watermark
