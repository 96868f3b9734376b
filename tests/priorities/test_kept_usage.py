"""Usage that a worker keeps between two reads is always what the buckets say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from django.db import OperationalError, transaction

from apps.accounts.actor import COMMAND
from apps.core.postgresql import consistent_read
from apps.usage import changed_hours
from apps.usage import kept_usage as kept_module
from apps.usage.arrays import UsageArrays, load_usage
from apps.usage.kept_usage import KeptUsage
from apps.usage.models import Source
from apps.usage.records.overlaps import decide_overlap
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import set_archived
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db(transaction=True)  # what isn't committed is never kept
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Row = tuple[Any, ...]


@pytest.fixture
def world(make_site: Callable[..., Site]) -> Site:
    made = make_site()
    made.publish(PROJECTS)
    for ago_h in (2, 30, 24 * 9, 24 * 40):
        made.job("alice", "physics", 1, ago_h=ago_h, queue="long")
        made.job("carol", "biology", 2, ago_h=ago_h + 1, site="south")
    return made


@contextmanager
def starts_of_reads() -> Iterator[list[datetime | None]]:
    """From which instant on usage is read."""
    starts: list[datetime | None] = []

    def noted(**asked: Any) -> UsageArrays:
        starts.append(asked["from_at"])
        return load_usage(**asked)

    with patch.object(kept_module, "load_usage", noted):
        yield starts


def rows_of(usage: UsageArrays) -> list[Row]:
    code = np.zeros(len(usage.account_id)) if usage.site_code is None else usage.site_code
    columns = (usage.account_id, usage.source_id, usage.job_class_id, usage.hour_epoch, usage.cpu_s, usage.gpu_s, code)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def used_s(rows: list[Row]) -> float:
    return float(sum(row[4] for row in rows))


def read(kept: KeptUsage, *, to_at: datetime = AS_OF, days: int | None = 60, **more: Any) -> list[Row]:
    """Rows as kept, after they were compared with those that are read anew."""
    asked = {
        "sources": list(Source.objects.order_by("pk").values_list("pk", flat=True)),
        "from_at": None if days is None else to_at - days * DAY,
        "to_at": to_at,
        "sites": ("south",),
        "resources": ("cpu_s",),
        "classes": True,
        **more,
    }
    with kept.lock, consistent_read() as may_cache:
        assert may_cache
        usage, plain = kept.load(**asked), load_usage(**asked)
    assert rows_of(usage) == rows_of(plain)
    assert (usage.sites, set(usage.resources)) == (plain.sites, set(plain.resources))
    assert (np.diff(usage.hour_epoch) >= 0).all()
    return rows_of(usage)


def test_only_hours_that_changed_are_read_again(world: Site) -> None:
    kept = KeptUsage()
    read(kept)
    world.job("alice", "physics", 2, ago_h=2)
    before = read(kept)
    with starts_of_reads() as starts:
        assert read(kept) == before
        assert read(kept, to_at=AS_OF + timedelta(minutes=40)) == before
    assert starts == [AS_OF], "of the hour that has begun"
    world.job("alice", "physics", 3, ago_h=26)
    with starts_of_reads() as starts:
        assert used_s(read(kept, to_at=AS_OF + timedelta(minutes=50))) == used_s(before) + 3 * 3600
    assert starts == [AS_OF - 27 * HOUR]


def test_a_read_that_fails_is_done_again(world: Site) -> None:
    kept = KeptUsage()
    before = read(kept)
    world.job("bob", "physics", 3, ago_h=5)
    with patch.object(kept_module, "load_usage", side_effect=OperationalError), pytest.raises(OperationalError):
        read(kept)
    assert len(read(kept)) > len(before)


def test_all_is_read_again_from_a_server_that_was_started_anew(world: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failover its watermarks can be those of imports that are lost."""
    kept = KeptUsage()
    read(kept)
    monkeypatch.setattr(changed_hours, "SERVER_EPOCH", "'another server'")
    with starts_of_reads() as starts:
        read(kept)
    assert starts == [AS_OF - 60 * DAY]


def test_held_hours_and_archived_sources_are_left_out_at_once(world: Site) -> None:
    kept = KeptUsage()
    twin = make_source(
        NewSource(slug="twin", name="twin", namespace="c1", origin="twin.example"), at=AS_OF, actor=COMMAND
    )
    world.job("alice", "physics", 3, ago_h=50, site="north")
    before = read(kept)
    world.job("alice", "physics", 5, ago_h=50, site="north", source=twin)
    held = read(kept)
    names = {"kept_slug": world.source.slug, "held_slug": "twin"}
    decide_overlap(site="north", **names, counts=True, reason="two machines", at=AS_OF, actor=COMMAND)
    assert used_s(read(kept)) > used_s(held) == used_s(before)
    with transaction.atomic():
        set_archived(twin.pk, AS_OF)
    assert used_s(read(kept)) == used_s(before)


def test_policies_with_other_windows_do_not_read_each_others_usage_again(world: Site) -> None:
    kept = KeptUsage()
    for days in (60, 9):
        read(kept, days=days)
    with starts_of_reads() as starts:
        for length in (60, 9, None):
            read(kept, days=length)
    assert starts == [datetime(1970, 1, 1, tzinfo=UTC)]


def test_windows_of_any_length_and_instants_in_any_order(world: Site) -> None:
    random, kept = Random(56), KeptUsage()
    for n in range(40):
        if n % 4 == 0:
            world.job("dan", "biology", 1 + n, ago_h=random.choice([1, 3, 25, 24 * 35]))
        read(
            kept,
            to_at=AS_OF - timedelta(minutes=random.randrange(0, 3 * 1440)),
            days=random.choice([None, 1, 9, 50]),
            sites=random.choice([(), ("south",)]),
            resources=random.choice([("cpu_s",), ("cpu_s", "gpu_s")]),
            classes=random.choice([True, False]),
        )


def test_more_than_the_bound_is_read_each_time(world: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "_MOST_BYTES", 10)
    kept = KeptUsage()
    before = read(kept)
    with starts_of_reads() as starts:
        assert read(kept) == before
    assert starts == [AS_OF - 60 * DAY]
