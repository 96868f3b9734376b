"""Which days of a source are complete, partial, missing, or not expected at all."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import SYSTEM
from apps.accounts.models import Account
from apps.usage.models import Bucket, JobClass, Source
from apps.usage.quality.coverage import Coverage, Day, day_state, list_days
from apps.usage.quality.missing_days import list_gaps

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def make_source(slug: str = "sacct", *, every_s: int | None = 3600) -> Source:
    return Source.objects.create(
        slug=slug, name=slug, namespace="n", expected_every_s=every_s, created_at=NOW, last_record_end_at=NOW
    )


def use(source: Source, first: datetime, n_hours: int, *, cpu_s: float = 60.0) -> None:
    account, _ = Account.objects.get_or_create(namespace="n", user_name="alice", defaults={"first_seen_at": NOW})
    job_class, _ = JobClass.objects.get_or_create(queue="", partition="", qos="")
    Bucket.objects.bulk_create(
        Bucket(source=source, account=account, job_class=job_class, hour_at=first + step * HOUR, cpu_s=cpu_s)
        for step in range(n_hours)
    )


def days_of(source: Source, *, n_days: int = 4, zone: str = "UTC") -> list[Day]:
    return list_days(sources=[source], n_days=n_days, at=NOW, zone=ZoneInfo(zone), actor=SYSTEM)[source.pk]


def states(days: list[Day]) -> list[str]:
    return [str(day.state) for day in days]


def test_a_source_with_usage_in_every_hour_is_complete() -> None:
    source = make_source()
    use(source, datetime(2026, 3, 1, tzinfo=UTC), 24 * 9 + 12)
    assert states(days_of(source)) == ["full", "full", "full", "full"]


def test_a_day_without_usage_is_a_gap_and_a_short_one_is_partial() -> None:
    source = make_source()
    use(source, datetime(2026, 3, 7, tzinfo=UTC), 24)
    use(source, datetime(2026, 3, 9, tzinfo=UTC), 5)
    days = days_of(source)
    assert states(days) == ["full", "hole", "part", "hole"]
    assert (days[2].n_hours, days[2].n_missing) == (5, 19)


def test_nothing_is_missing_before_the_first_hour_nor_within_one_interval_of_now() -> None:
    source = make_source(every_s=6 * 3600)
    use(source, datetime(2026, 3, 9, 18, tzinfo=UTC), 10)
    days = days_of(source)
    assert states(days) == ["off", "off", "full", "full"]
    assert [day.n_missing for day in days] == [0, 0, 0, 0]


def test_an_idle_hour_is_no_gap_and_a_silence_of_one_interval_is_one() -> None:
    source = make_source(every_s=6 * 3600)
    use(source, datetime(2026, 3, 7, tzinfo=UTC), 8)
    use(source, datetime(2026, 3, 7, 13, tzinfo=UTC), 30)  # five idle hours before
    use(source, datetime(2026, 3, 9, 1, tzinfo=UTC), 23)  # six hours are missing before, across midnight
    days = days_of(source)
    assert states(days)[:3] == ["full", "part", "part"]
    assert [day.n_missing for day in days[:3]] == [0, 5, 1]


def test_usage_long_ago_makes_every_later_day_missed() -> None:
    source = make_source()
    use(source, datetime(2026, 1, 1, tzinfo=UTC), 1)
    assert states(days_of(source)) == ["hole"] * 4


def test_a_source_without_an_interval_has_no_gaps() -> None:
    source = make_source(every_s=None)
    use(source, datetime(2026, 3, 8, 22, tzinfo=UTC), 1)
    assert states(days_of(source)) == ["off", "full", "off", "off"]


def test_an_idle_cluster_with_contact_has_no_gaps() -> None:
    source = make_source(every_s=3600)
    use(source, datetime(2026, 3, 7, tzinfo=UTC), 3)
    collected = {"kind": Source.Kind.COMMAND, "collect_every_s": 300, "collected_at": NOW - timedelta(minutes=5)}
    for name, value in collected.items():
        setattr(source, name, value)
    source.save()
    assert states(days_of(source)) == ["full", "off", "off", "off"]
    gaps: dict[str, Any] = {"from_on": date(2026, 3, 7), "to_on": date(2026, 3, 10), "at": NOW, "zone": ZoneInfo("UTC")}
    assert list_gaps(**gaps, actor=SYSTEM) == {}
    source.collected_at = datetime(2026, 3, 8, 12, tzinfo=UTC)  # no contact since then
    source.save()
    assert states(days_of(source)) == ["full", "hole", "hole", "hole"]
    assert list_gaps(**gaps, actor=SYSTEM) == {date(2026, 3, 9): ("sacct",)}


def test_gaps_are_measured_in_the_interval_at_which_contact_is_due() -> None:
    source = make_source(every_s=3600)
    use(source, datetime(2026, 3, 7, tzinfo=UTC), 24 * 3 + 9)
    source.kind, source.collect_every_s = Source.Kind.COMMAND, 6 * 3600
    source.save()
    assert states(days_of(source)) == ["full", "full", "full", "full"]


def test_a_source_that_never_sent_anything_has_no_gaps() -> None:
    assert states(days_of(make_source())) == ["off"] * 4


def test_days_are_those_of_the_given_zone() -> None:
    source = make_source(every_s=None)
    use(source, datetime(2026, 3, 8, 23, tzinfo=UTC), 1)
    days = days_of(source, zone="Europe/Stockholm")
    assert [day.on for day in days if day.state is Coverage.FULL] == [date(2026, 3, 9)]


def test_emptied_buckets_are_not_usage() -> None:
    source = make_source()
    use(source, datetime(2026, 3, 7, tzinfo=UTC), 24)
    use(source, datetime(2026, 3, 8, tzinfo=UTC), 24, cpu_s=0.0)
    assert states(days_of(source))[:2] == ["full", "hole"]


def test_hours_of_one_source_do_not_fill_gaps_of_another() -> None:
    one, other = make_source("one"), make_source("other")
    use(one, datetime(2026, 3, 7, tzinfo=UTC), 84)
    found = list_days(sources=[one, other], n_days=4, at=NOW, zone=ZoneInfo("UTC"), actor=SYSTEM)
    assert states(found[one.pk]) == ["full"] * 4
    assert states(found[other.pk]) == ["off"] * 4


@pytest.mark.parametrize(
    ("n_hours", "n_missing", "state"), [(0, 0, "off"), (1, 0, "full"), (0, 1, "hole"), (23, 1, "part")]
)
def test_the_state_of_a_day_follows_from_its_hours(n_hours: int, n_missing: int, state: str) -> None:
    assert day_state(n_hours=n_hours, n_missing=n_missing) == state
