"""One meaning of late, by the last contact alone; and everything that says late says the same."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.pages.sources.quality.presenters import findings_of
from apps.priorities.selectors import freshness
from apps.priorities.serving import store
from apps.usage.models import Record, Source
from apps.usage.quality.findings import list_data_issues
from apps.usage.timeliness import Timeliness, lateness, timeliness
from apps.web.texts.source_lines import lines_of
from tests.each_case import each_case
from tests.instants import AT
from tests.small_site import Site, record

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def source(**given: Any) -> Source:
    """Expected every hour; its newest record is a month old, as on an idle cluster."""
    known = {"slug": "a", "created_at": AT - 90 * DAY, "expected_every_s": 3600, "last_record_end_at": AT - 30 * DAY}
    return Source(**{**known, **given})


COMMAND_KIND = {"kind": "command", "collect_every_s": 300}


@each_case(
    ("given", "state"),
    [
        ({"last_received_at": AT - 2 * HOUR}, "on_time"),
        ({"last_received_at": AT - 2 * HOUR - timedelta(seconds=1)}, "late"),
        ({"last_received_at": AT, "last_record_end_at": None}, "on_time"),
        ({"last_received_at": None}, "late"),
        ({"last_received_at": None, "created_at": AT - HOUR}, "no_contact"),
        ({"last_received_at": AT - DAY, "expected_every_s": None}, "by_hand"),
        ({"last_received_at": AT - DAY, "is_paused": True}, "paused"),
        # collected: what it brought says nothing, that it worked does
        ({**COMMAND_KIND, "last_received_at": AT - DAY, "collected_at": AT}, "on_time"),
        ({**COMMAND_KIND, "last_received_at": AT - DAY, "collected_at": AT - 3 * HOUR}, "late"),
        ({**COMMAND_KIND, "expected_every_s": None, "collected_at": AT - timedelta(minutes=11)}, "late"),
        ({**COMMAND_KIND, "collect_every_s": 86_400, "collected_at": AT - 40 * HOUR}, "on_time"),
        ({**COMMAND_KIND, "created_at": AT, "collect_error": "no such program"}, "never_collected"),
        ({**COMMAND_KIND, "created_at": AT - 3 * HOUR}, "never_collected"),
        ({**COMMAND_KIND, "created_at": AT - HOUR}, "no_contact"),
        ({**COMMAND_KIND, "created_at": AT - DAY, "is_paused": True}, "paused"),
        # a collector that was left behind says nothing of a source that now sends
        ({"kind": "push", "collect_every_s": 300, "collected_at": AT, "last_received_at": AT - DAY}, "late"),
    ],
)
def test_only_the_last_contact_decides(given: dict[str, Any], state: str) -> None:
    assert timeliness(source(**given), AT) == state


def test_grace_is_added_to_the_allowed_intervals() -> None:
    one = source(last_received_at=AT - 3 * HOUR)
    assert timeliness(one, AT, grace=HOUR) is Timeliness.ON_TIME
    assert timeliness(one, AT + HOUR, grace=HOUR) is Timeliness.LATE
    assert lateness(one, AT) == 3


@pytest.mark.django_db
@pytest.mark.parametrize("is_late", [False, True])
def test_pages_readiness_metrics_and_rest_agree(computed: Site, monkeypatch: pytest.MonkeyPatch, is_late: bool) -> None:
    """A collector that works beside an idle cluster; and one that stopped a day ago."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    contact_at = AT - DAY if is_late else AT
    Source.objects.update(
        kind="command",
        expected_every_s=300,
        collect_every_s=300,
        last_received_at=AT - DAY,
        last_record_end_at=AT - DAY,
        collected_at=contact_at,
    )
    store.forget()
    (line,) = lines_of(COMMAND)
    degraded = {found["code"] for found in Client().get("/readyz").json()["degraded"]}
    metrics = Client().get("/metrics").content.decode()
    issues = list_data_issues(sources=[line.source], span=DAY, at=AT, zone=ZoneInfo("UTC"), actor=COMMAND)
    headers = {"authorization": f"Bearer {computed.token('usage:write')}"}
    (row,) = Client().get("/api/v1/usage/sources", headers=headers).json()["results"]
    shown = {
        "page": line.is_behind,
        "data quality": "late" in {found.key for found in findings_of([line], issues)},
        "freshness": "source_late" in freshness(actor=Actor(computed.admin, "page")).keys,
        "readyz": "late_source" in degraded,
        "metric": 'fairshare_source_late{source="cluster-a"} 1.0' in metrics,
        "rest": row["state"] == "late",
    }
    assert shown == dict.fromkeys(shown, is_late)
    assert row["last_contact_at"] == contact_at.isoformat().replace("+00:00", "Z")
    assert row["lag_s"] == DAY.total_seconds(), "the age of the newest record, as information"


@pytest.mark.django_db
def test_an_old_newest_record_is_an_issue_only_if_jobs_ran(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    Source.objects.update(
        kind="command", expected_every_s=3600, collect_every_s=300, collected_at=AT, last_record_end_at=AT - DAY
    )

    def worth() -> set[str]:
        (line,) = lines_of(COMMAND)
        issues = list_data_issues(sources=[line.source], span=7 * DAY, at=AT, zone=ZoneInfo("UTC"), actor=COMMAND)
        return {found.key for found in findings_of([line], issues) if found.level != "info"}

    assert worth() & {"late", "unreported", "holes"} == set()
    one = Record.objects.filter(state="finished").order_by("pk")[0]
    Record.objects.filter(pk=one.pk).update(note="vanished", end_at=AT - HOUR)
    assert "unreported" not in worth(), "its accounting may still come"
    Record.objects.filter(pk=one.pk).update(end_at=AT - 3 * HOUR)
    assert "unreported" in worth()


@pytest.mark.django_db
@pytest.mark.parametrize("body", [[], [record("1", "alice", "physics", 6, at=AT)]], ids=["empty", "known"])
def test_an_empty_collection_is_a_contact(
    computed: Site, monkeypatch: pytest.MonkeyPatch, body: list[dict[str, Any]]
) -> None:
    """An idle cluster has nothing to send."""
    Source.objects.update(expected_every_s=3600)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + DAY).isoformat())
    assert timeliness(Source.objects.get(), AT + DAY) is Timeliness.LATE
    headers = {"authorization": f"Bearer {computed.token('usage:write')}"}
    answer = Client().post(
        "/api/v1/usage/records?source=cluster-a", json.dumps(body), content_type="application/json", headers=headers
    )
    assert answer.status_code == 200, answer.content
    assert timeliness(Source.objects.get(), AT + DAY) is Timeliness.ON_TIME
