"""Jobs that count by their own times: usage is the sum of their charges, and hours count where records can’t."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from apps.accounts.account_index import load_account_index
from apps.accounts.actor import COMMAND
from apps.engine.slurm_charge import PeriodCharge
from apps.policies.settings import PolicySettings
from apps.priorities.charges import charge_of_job
from apps.priorities.metering import RecordedUsage, SourceRow, usage_of_accounts, window_of
from apps.priorities.own_times import load_ended
from apps.priorities.usage_factors import JobClassRow
from apps.usage import own_times
from apps.usage.arrays import load_open_records, load_usage
from apps.usage.models import JobClass, Overlap, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.instants import AT

pytestmark = pytest.mark.django_db
WINDOW = {"aging": "slurm", "length_s": None, "half_life_s": 7_200, "calc_period_s": 300, "phase_s": 34}
ROUNDED = 1e-6  # hours of a charge are multiples of 2⁻¹⁰
METRIC = {"weights": {"billing": 1.0}, "class_factors": [{"qos": "low", "factor": 0.5}]}
SETTINGS = PolicySettings.from_json({"window": WINDOW, "metric": METRIC, "approach": {"global": "active"}})


@pytest.fixture
def source() -> Source:
    return make_source(NewSource(slug="c1", name="c1"), at=AT, actor=COMMAND)


def ago(minutes: float) -> datetime:
    return AT - timedelta(minutes=minutes)


def bring(
    source: Source, job: str, start: float, end: float | None, *, submit: float | None = None, **given: Any
) -> None:
    times = {"submit_at": ago(start if submit is None else submit), "start_at": ago(start)}
    state = "running" if end is None else "finished"
    row = {"user": "ann", "billing": 1.488, "cpus": 1.0, "state": state, **times, **given}
    ingest_batch(source=source, rows=[RecordRow(job=job, end_at=None if end is None else ago(end), **row)], at=AT)


@pytest.fixture
def jobs(source: Source) -> Source:
    bring(source, "1", 200, 131)
    bring(source, "2", 95.5, 12.2, qos="low", user="bob")
    bring(source, "3", 31, 30.9)
    bring(source, "4", 47, None, user="bob")
    bring(source, "5", 3_000, 2_900)  # older than sixteen half-lives
    bring(source, "6", 58, 41)  # resized after 17 minutes
    bring(source, "6", 41, 9, billing=0.7)
    bring(source, "6", 9, None, billing=2.9, submit=9)
    return source


def usage(source: Source, settings: PolicySettings = SETTINGS) -> dict[str, float]:
    """Usage by user name, as in a recompute."""
    accounts = load_account_index(use_cache=False)
    window = window_of(settings.window)
    recorded = RecordedUsage(
        load_usage(sources=[source.pk], from_at=None, to_at=AT),
        load_open_records(sources=[source.pk], parts=True),
        accounts.ids,
        [SourceRow(source.pk, source.slug, "")],
        {row[0]: JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")},
        load_ended(window, sources=[source.pk], to_at=AT),
    )
    counted = usage_of_accounts(recorded, metric=settings.metric, window=window, as_of_s=AT.timestamp())
    amounts = counted.by_approach["active"].sum(axis=1).tolist()
    return {key.user_name: amount for key, amount in zip(accounts.keys, amounts, strict=True)}


def charged(settings: PolicySettings = SETTINGS) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in Record.objects.select_related("account", "job_class", "source"):
        charge = charge_of_job(settings, record, AT)
        assert charge.active == pytest.approx(sum(line.usage for line in charge.hours))
        found[record.account.user_name] = found.get(record.account.user_name, 0.0) + charge.active
    return found


def test_charges_add_up_to_usage(jobs: Source) -> None:
    assert usage(jobs) == pytest.approx(charged(), rel=ROUNDED)


def test_a_job_counts_from_its_own_start_to_its_own_end(source: Source) -> None:
    bring(source, "1", 95.5, 12.2, qos="low")
    charge = PeriodCharge(window_of(SETTINGS.window), AT.timestamp())
    start_s, end_s = (np.array([ago(minutes).timestamp()]) for minutes in (95.5, 12.2))
    expected = 0.5 * 1.488 * charge.charged_s(start_s, end_s)[0]
    assert usage(source)["ann"] == pytest.approx(expected, rel=1e-9)
    by_the_hour = PolicySettings.from_json({"window": {"calc_period_s": 0}}, base=SETTINGS)
    assert abs(usage(source, by_the_hour)["ann"] / expected - 1) > 0.02


@pytest.mark.parametrize("why", ["sealed", "held", "many", "peer"])
def test_hours_count_where_records_cannot(jobs: Source, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "sealed":
        Source.objects.update(sealed_before_at=ago(30))
    elif why == "held":
        other = make_source(NewSource(slug="other", name="o"), at=AT, actor=COMMAND)
        span = {"from_at": ago(180).replace(minute=0), "to_at": ago(60).replace(minute=0)}
        Overlap.objects.create(site="", kept=other, held=jobs, found_at=AT, **span)
    elif why == "many":
        monkeypatch.setattr(own_times, "MOST_TIMED_RECORDS", 1)
    else:
        Source.objects.update(kind=Source.Kind.PEER)
    assert usage(jobs) == pytest.approx(charged(), rel=ROUNDED)
