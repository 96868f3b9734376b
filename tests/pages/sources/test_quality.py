from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import Account, User
from apps.pages.sources.figures import coverage_figure
from apps.policies.services import change_settings
from apps.usage.models import Overlap, RunLine, Source, SourceDay, TooLateRecord
from apps.usage.parsers.base import RecordBatch, RecordRow, RunEvent, microseconds
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import change_source, set_up_source, tag_of
from tests.instants import AT
from tests.pages.page import Page, read
from tests.priority_site import PROJECTS, new_site
from tests.sign_in import sign_in

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
URL = "/usage/sources/"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


def signed_in(user: User) -> Client:
    return sign_in(Client(), user)


def page_of(answer: Any) -> Page:
    """Of the page: what it found, and the heading that counts it, agree."""
    page = read(answer)
    verdict = page.item("verdict").attributes
    worth = [one for one in page.items("finding") if "info" not in str(one.attributes["class"])]
    assert verdict["data-value"] == str(len(worth))
    return page


def state(page: Page) -> str | None:
    return page.item("verdict").attributes["data-state"]


def numbers(page: Page, key: str) -> list[str]:
    """What a finding counts."""
    return re.findall(r"[+−]?\d+(?:\.\d+)?", page.text(f'[data-key="{key}"] [data-testid="finding-text"]'))


def job(number: int, end_at: datetime, *, cpus: float = 1, revision: int = 0) -> RecordRow:
    start_at = end_at - HOUR
    return RecordRow(str(number), "alice", "physics", start_at=start_at, end_at=end_at, cpus=cpus, revision=revision)


@pytest.fixture
def source(db: None) -> Source:
    made = make_source(NewSource(slug="c1", name="Cluster 1", expected_every_s=3600), at=AT, actor=COMMAND)
    ingest_batch(source=made, rows=[job(n, AT - n * HOUR) for n in range(10 * 24)], at=AT)
    SourceDay.objects.filter(source=made).delete()
    return made


@pytest.fixture
def admin(db: None) -> Client:
    return signed_in(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))


@pytest.fixture
def user(db: None) -> Client:
    return signed_in(User.objects.create_user("uma", "uma@example.org", "a long pass phrase"))


def test_an_empty_site_shows_the_first_step(admin: Client, user: Client) -> None:
    upload = 'main a[href="/usage/import/"]'
    assert read(admin.get(URL)).has(upload)
    assert not read(user.get(URL)).has(upload)


def test_data_without_issues_is_reported_as_such(source: Source, admin: Client) -> None:
    page = page_of(admin.get(URL + "?days=7"))
    assert state(page) == "fine"
    assert page.has('[data-testid="no-findings"]')


def test_every_data_issue_has_its_amount_and_remedy(source: Source, admin: Client) -> None:
    came_in = {"n_new": 240, "n_duplicate": 12, "n_late": 3, "n_too_late": 2, "n_rejected": 9, "n_ahead": 4}
    SourceDay.objects.create(source=source, received_on=AT.date(), **came_in)
    ingest_batch(source=source, rows=[job(5, AT - 5 * HOUR, cpus=3, revision=1)], at=AT)
    TooLateRecord.objects.create(
        source=source,
        received_at=AT - HOUR,
        job="ancient",
        submit_at=AT - 400 * DAY,
        end_at=AT - 399 * DAY,
        state="finished",
        account=Account.objects.get(),
        cpu_s=7200,
    )
    Overlap.objects.create(
        site="s", kept=source, held=source, from_at=AT - 2 * DAY, to_at=AT - DAY, found_at=AT
    )  # which source it is doesn't matter here
    page = page_of(admin.get(URL))
    assert state(page) == "look"
    assert not page.has('[data-testid="no-findings"]')
    for key, counted in (
        ("held", ["1"]),
        ("ahead", ["4"]),
        ("rejected", ["5"]),
        ("too_late", ["1", "2.0"]),
        ("changed", ["1", "+2.0"]),
    ):
        assert numbers(page, key) == counted, key
    assert "ancient" in page.text('section[aria-labelledby="too-late"] tbody')
    assert "physics/alice" in page.text('section[aria-labelledby="changed"] tbody')


def test_jobs_without_processors_are_listed_for_permitted_users(source: Source, admin: Client, user: Client) -> None:
    idle = job(901, AT - 3 * HOUR, cpus=0)
    gpu = job(902, AT - 3 * HOUR, cpus=0)._replace(gpus=2)
    charge = job(903, AT - 3 * HOUR, cpus=0)._replace(is_charge=True)
    ingest_batch(source=source, rows=[idle, gpu, charge, job(904, AT - 100 * DAY, cpus=0)], at=AT)
    assert numbers(page_of(admin.get(URL)), "no_processors")[0] == "1"
    assert page_of(admin.get(URL)).texts('section[aria-labelledby="no-processors"] tbody th') == ["901"]
    seen = page_of(user.get(URL))
    assert numbers(seen, "no_processors")[0] == "1"
    assert not seen.has('section[aria-labelledby="no-processors"]')
    (found,) = admin.get("/api/v1/usage/quality").json()["results"]
    assert found["no_processors"] == 1


def test_jobs_that_run_for_longer_than_they_may_are_counted_with_a_remedy(source: Source, admin: Client) -> None:
    open_job = job(905, AT - 3 * HOUR)._replace(state="running", end_at=None, requested_s=60.0)
    ingest_batch(source=source, rows=[open_job], at=AT)
    assert numbers(page_of(admin.get(URL)), "overrun")[0] == "1"
    (found,) = admin.get("/api/v1/usage/quality").json()["results"]
    assert found["overrun"] == 1


def test_jobs_of_which_lines_are_missing_are_counted_with_a_remedy(source: Source, admin: Client) -> None:
    at_us = microseconds(AT - 3 * HOUR)
    batch = replace(RecordBatch.from_rows([]), are_runs=True, events=(RunEvent("rest", "906.cl", "", at_us, 1),))
    ingest_batch(source=source, rows=batch, at=AT)
    assert numbers(page_of(admin.get(URL)), "unclear")[0] == "1"
    (found,) = admin.get("/api/v1/usage/quality").json()["results"]
    assert found["unclear"] == 1


def test_lines_in_the_future_are_refused_and_not_kept(source: Source, admin: Client) -> None:
    events = tuple(RunEvent("rest", "907.cl", "", microseconds(AT + n * HOUR), n) for n in (-1, 2))
    counts = ingest_batch(source=source, rows=replace(RecordBatch.from_rows([]), are_runs=True, events=events), at=AT)
    assert [(one.line, one.code) for one in counts.rejections] == [(2, "ahead_of_clock")]
    assert numbers(page_of(admin.get(URL)), "ahead")[0] == "1"
    assert RunLine.objects.count() == 1


def test_gaps_are_counted_in_hours(source: Source, admin: Client) -> None:
    Source.objects.filter(pk=source.pk).update(expected_every_s=3600)
    later = AT + 30 * HOUR
    ingest_batch(source=source, rows=[job(999, later)], at=later)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRSHARE_CLOCK", later.isoformat())
        page = page_of(admin.get(URL + "?days=7"))
    # jobs end on the hour: hours 11 of day 0 (the last) to 16 of day 1 (exclusive) have nothing
    assert numbers(page, "holes")[0] == "28"


def test_data_issues_and_coverage_offer_the_same_periods(source: Source, admin: Client) -> None:
    page, (coverage,) = page_of(admin.get(URL)), coverage_figure([], QueryDict("")).controls
    assert page.texts("nav.seg[aria-label=Period] a") == [choice.label for choice in coverage.choices]
    assert page.texts("nav.seg[aria-label=Period] a[aria-current]") == ["30 d"]
    assert [choice.label for choice in coverage.choices if choice.is_chosen] == ["30 d"]


def test_users_without_access_to_all_usage_see_counts_only(source: Source, user: Client) -> None:
    ingest_batch(source=source, rows=[job(5, AT - 5 * HOUR, cpus=3, revision=1)], at=AT)
    assert numbers(page_of(user.get(URL)), "changed") == ["1"]
    assert "alice" not in user.get(URL).content.decode()
    assert b"alice" not in b"".join(user.get("/usage/quality/changed.csv").streaming_content)  # type: ignore[attr-defined]


def test_the_download_contains_all_changes(source: Source, admin: Client) -> None:
    rows = [job(n, AT - n * HOUR, cpus=3, revision=1) for n in range(60)]
    ingest_batch(source=source, rows=rows, at=AT)
    found = b"".join(admin.get("/usage/quality/changed.csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(found) == 61
    assert found[1].endswith("3600.0,10800.0")


def test_rest_returns_the_same_findings(source: Source, admin: Client) -> None:
    SourceDay.objects.create(source=source, received_on=AT.date(), n_new=240, n_rejected=2, n_ahead=1)
    ingest_batch(source=source, rows=[job(5, AT - 5 * HOUR, cpus=3, revision=1)], at=AT)
    (one,) = admin.get("/api/v1/usage/quality?days=7").json()["results"]
    assert (one["source"], one["changed"], one["changed_core_s"], one["missing_hours"]) == ("c1", 1, 7200.0, 0)
    assert (one["received"]["rejected"], one["received"]["ahead"]) == (2, 1)
    assert admin.get("/api/v1/usage/quality?days=0").status_code == 400


def test_a_source_without_collection_is_an_issue_until_it_has_an_interval(
    db: None, tmp_path: Path, settings: Any
) -> None:
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    terms = {"kind": "directory", "collecting": {"folder": str(tmp_path)}}
    made = set_up_source(slug="fram", new_settings={**terms, "collect_every_s": None}, at=AT, actor=COMMAND)
    admin = signed_in(User.objects.create_superuser("root"))
    finding = '[data-key="not_collected"]'
    assert page_of(admin.get(URL)).all(finding)
    change_source(slug="fram", tag=tag_of(made), new_settings={"collect_every_s": 300}, at=AT, actor=COMMAND)
    assert not page_of(admin.get(URL)).all(finding)


def test_kinds_that_count_by_a_default_are_named_with_a_job(source: Source, admin: Client, user: Client) -> None:
    site = new_site()
    weights = {"gpu_s": 1.0, "gpu:h100": 8.0}
    settings = {"metric": {"weights": weights}}
    rows = [
        job(number, AT - DAY)._replace(gpus=2, kinds=((kind, 1.0),))
        for number, kind in enumerate(("gpu:h100", "gpu:b300", "gpu:b300", "license/matlab"), 4710)
    ]
    ingest_batch(source=source, rows=rows, at=AT)
    assert page_of(admin.get(URL)).all('[data-key="kinds"]') == [], "all GPUs count alike"
    site.publish(PROJECTS)
    change_settings(policy_slug=site.slug, settings=settings, reason="a test", at=AT, actor=COMMAND)
    found = page_of(admin.get(URL)).text('[data-key="kinds"] [data-testid="finding-text"]')
    assert found == "Kinds without a weight of their own count by the default: gpu:b300 (2 jobs, such as 4712)."
    found = page_of(user.get(URL)).text('[data-key="kinds"] [data-testid="finding-text"]')
    assert found.endswith("the default: gpu:b300 (2 jobs)."), "names of jobs are for those who may read all usage"
    answer = admin.get("/api/v1/usage/quality").json()
    assert [row["of_kinds"] for row in answer["results"] if row["source"] == source.slug] == [{"gpu:b300": 2}]
    weights["gpu:b300"] = 12.0
    change_settings(policy_slug=site.slug, settings=settings, reason="a test", at=AT, actor=COMMAND)
    assert page_of(admin.get(URL)).all('[data-key="kinds"]') == []
