"""Metrics: the figures are those of the site, the text is valid for Prometheus, and no person is named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from apps.accounts.actor import SYSTEM
from apps.pages.monitoring import policy_gauges
from apps.pages.monitoring.source_gauges import unmapped_of_sources
from apps.policies.recompute_runs import queue_recompute
from apps.policies.services import publish_document
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.series import runs as series_runs
from apps.series.models import Series
from apps.usage.models import Source
from tests.instants import AT
from tests.rest_site import refused
from tests.small_site import Site, push, record
from tests.web.rest.exposition import Family, read_exposition

DOCS = Path(__file__).resolve().parents[3] / "docs"
ELSEWHERE = "192.0.2.7"
YOU = {"name": "you", "kind": "user", "shares": 1}


@pytest.fixture(autouse=True)
def _nothing_counted_before() -> Iterator[None]:
    unmapped_of_sources.forget()
    yield
    unmapped_of_sources.forget()


def scrape() -> dict[str, Family]:
    answer = Client().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read_exposition(answer.content.decode())


def value(found: dict[str, Family], name: str, **labels: str) -> float:
    """The one sample of these labels."""
    matching = [v for given, v in found[name].samples[name] if dict(given) == labels]
    assert len(matching) == 1, (name, labels, found[name].samples)
    return matching[0]


def test_the_text_is_valid_for_prometheus(computed: Site) -> None:
    found = scrape()
    assert {"fairshare_entry_target_ratio", "fairshare_usage_received_records_total"} <= set(found)
    numbers = [v for family in found.values() for of in family.samples.values() for _, v in of]
    assert all(math.isfinite(v) for v in numbers), "no infinity and no NaN"


@pytest.mark.parametrize(
    "text",
    [
        "a 1",  # no line end
        "# TYPE a gauge\na 1\na 1\n",  # twice
        "# TYPE a gauge\nb 1\n# TYPE b gauge\n",  # reported after it was used
        '# TYPE a gauge\na{x="1" 1\n',
        '# TYPE a gauge\na{x="\\q"} 1\n',
        "# TYPE a counter\na 1\n",  # counters end in _total
        "# TYPE a gauge\na one\n",
        '# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n',
    ],
)
def test_the_format_check_rejects_what_prometheus_rejects(text: str) -> None:
    with pytest.raises(AssertionError):
        read_exposition(text)


def test_sources_export_age_interval_and_record_outcomes(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {"job": "9", "user": "x", "start": "2026-11-20T10:00:00Z", "end": "2026-11-20T09:00:00Z", "cpus": 1}
    push(computed, [record("1", "alice", "physics", 6, at=AT), bad])
    Source.objects.update(
        expected_every_s=3600,
        last_received_at=AT - timedelta(hours=1),
        collected_at=AT,
        kind="command",
        collect_error="no such program",
    )
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(hours=3)).isoformat())
    found, of = scrape(), {"source": "cluster-a"}
    assert value(found, "fairshare_usage_records", **of) == 3
    assert value(found, "fairshare_source_last_contact_seconds", **of) == 3 * 3600
    assert value(found, "fairshare_source_newest_record_seconds", **of) == 4 * 3600, (
        "jobs of the site end an hour before"
    )
    assert value(found, "fairshare_source_expected_seconds", **of) == 3600
    assert value(found, "fairshare_source_lateness_ratio", **of) == 3
    assert value(found, "fairshare_source_late", **of) == 1
    assert value(found, "fairshare_source_never_collected", **of) == 0
    assert value(found, "fairshare_source_collect_failing", **of) == 1
    assert value(found, "fairshare_source_paused", **of) == 0
    received = {
        dict(labels)["outcome"]: n
        for labels, n in found["fairshare_usage_received_records_total"].samples[
            "fairshare_usage_received_records_total"
        ]
    }
    assert received == {"new": 3, "duplicate": 1, "corrected": 0, "late": 0, "too_late": 0, "rejected": 1}


def test_unmapped_usage_is_exported_by_policy_and_source(site: Site) -> None:
    push(site, [record("7", "stranger", "", 2, at=AT)])
    site.recompute()
    found = scrape()
    assert value(found, "fairshare_unmapped_accounts", policy="grid") == 1
    assert value(found, "fairshare_unmapped_usage", policy="grid") > 0
    assert value(found, "fairshare_source_unmapped_accounts", source="cluster-a") == 1
    assert value(found, "fairshare_source_unmapped_core_seconds", source="cluster-a") == 2 * 3600


def test_policies_export_their_deviation(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=2)).isoformat())
    found, of = scrape(), {"policy": "grid"}
    assert value(found, "fairshare_snapshot_age_seconds", **of) == 120
    assert value(found, "fairshare_policy_entries", **of) == 6
    assert value(found, "fairshare_ranked_leaves", **of) == 3
    # By hand: targets: physics 60 % and 7 of 10 hours, biology 40 and 3; alice 2/3 and 6/7, bob 1/3 and 1/7; carol all.
    physics, biology = abs(0.7 - 0.6), abs(0.3 - 0.4)
    alice, bob = abs(6 / 7 - 2 / 3), abs(1 / 7 - 1 / 3)
    weighted = 0.6 * physics + 0.4 * biology + 0.4 * alice + 0.2 * bob
    assert value(found, "fairshare_deviation_points", **of) == pytest.approx(100 * weighted / 2, rel=0.01)
    snapshot = store.newest("grid")
    over, under = policy_gauges.count_outside(snapshot)
    assert value(found, "fairshare_entries_out_of_band", side="over", **of) == over >= 1
    assert value(found, "fairshare_entries_out_of_band", side="under", **of) == under >= 1


def test_a_policy_without_usage_has_no_deviation(site: Site) -> None:
    publish_document(
        policy_slug="other",
        document={"root": {"name": "other", "children": [{"name": "quiet", "children": [YOU]}]}},
        reason="x",
        at=AT,
        actor=SYSTEM,
    )
    site.other.refresh_from_db()
    work_run_now(queue_recompute(site.other, at=AT).pk)
    store.poll()
    assert policy_gauges.mean_deviation_points(store.newest("other")) is None
    found = scrape()
    assert found["fairshare_deviation_points"].samples == {}
    assert value(found, "fairshare_entry_target_ratio", policy="other", entry="/quiet") == 1
    assert found["fairshare_entry_actual_ratio"].samples == {}


def test_the_daily_series_exports_its_progress(computed: Site) -> None:
    assert scrape()["fairshare_series_through_timestamp_seconds"].samples == {}
    Series.objects.update_or_create(policy=computed.policy, defaults={"through_on": date(2026, 11, 19)})
    Run.objects.filter(kind=series_runs.KIND).delete()
    Run.objects.create(
        kind=series_runs.KIND,
        subject=series_runs.subject_of(computed.policy),
        due_at=AT,
        created_at=AT,
        progress_done=30,
        progress_total=120,
    )
    found = scrape()
    ends_at = datetime(2026, 11, 20, tzinfo=UTC)
    assert value(found, "fairshare_series_through_timestamp_seconds", policy="grid") == ends_at.timestamp()
    assert value(found, "fairshare_series_build_ratio", policy="grid") == 0.25


def shown_entries(found: dict[str, Family]) -> list[str]:
    of = found["fairshare_entry_target_ratio"].samples.get("fairshare_entry_target_ratio", [])
    return [dict(labels)["entry"] for labels, _ in of]


def test_only_the_largest_groups_are_exported_and_no_users(computed: Site, settings: Any) -> None:
    found = scrape()
    assert shown_entries(found) == ["/physics", "/biology"]
    assert value(found, "fairshare_entry_target_ratio", policy="grid", entry="/physics") == pytest.approx(0.6)
    assert value(found, "fairshare_entry_deviation_points", policy="grid", entry="/physics") == pytest.approx(
        10, rel=0.01
    )
    for most, wanted in ((1, ["/physics"]), (0, [])):
        settings.FAIRSHARE_METRICS_ENTRIES = most
        assert shown_entries(scrape()) == wanted
    assert "alice" not in Client().get("/metrics").content.decode()


def test_unusual_names_are_escaped(computed: Site) -> None:
    snapshot = store.newest("grid")
    odd = 'a\\b"c'
    names = [odd if name == "physics" else name for name in snapshot.tree.name]
    renamed = replace(snapshot, tree=replace(snapshot.tree, name=names))
    (family, *_) = policy_gauges.entry_families({"grid": renamed}, 1)

    class One(Collector):
        def collect(self) -> Iterator[Any]:
            yield family

    registry = CollectorRegistry()
    registry.register(One())
    found = read_exposition(generate_latest(registry).decode())
    assert shown_entries(found) == [f"/{odd}"]


def test_waiting_and_lost_runs_are_exported(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = queue_recompute(computed.policy, at=AT)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=30)).isoformat())
    found = scrape()
    assert (
        value(found, "fairshare_run_waiting_seconds", kind=run.kind)
        == (AT + timedelta(minutes=30) - run.due_at).total_seconds()
    )
    assert value(found, "fairshare_runs_lost", kind=run.kind) == 0
    type(run).objects.filter(pk=run.pk).update(state="running", lease_until=AT)
    assert value(scrape(), "fairshare_runs_lost", kind=run.kind) == 1


def test_a_limited_token_cannot_read_metrics(computed: Site) -> None:
    stranger = Client(REMOTE_ADDR=ELSEWHERE)
    for bounds in ({"policy_slug": "grid"}, {"policy_slug": "grid", "subtree_uid": computed.uid("/physics")}):
        headers = {"authorization": f"Bearer {computed.token('priorities:read', **bounds)}"}
        answer = stranger.get("/metrics", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "token_bound")


def test_a_session_cannot_read_metrics(computed: Site) -> None:
    client = Client(REMOTE_ADDR=ELSEWHERE)
    client.force_login(computed.admin, backend="django.contrib.auth.backends.ModelBackend")
    assert refused(client.get("/metrics")) == (401, "unauthenticated", [])


NAME = re.compile(r"\bfairshare_[a-z_]+\b")


def in_rules() -> list[str]:
    rules = yaml.safe_load((DOCS / "monitoring/alerts.yml").read_text(encoding="utf-8"))
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def in_dashboard() -> list[str]:
    board = json.loads((DOCS / "monitoring/grafana.json").read_text(encoding="utf-8"))
    found = [each["query"] for each in board["templating"]["list"]]
    return found + [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


def exported(found: dict[str, Family]) -> dict[str, set[str]]:
    """Every sample name, with the labels that it has; a family without samples yet goes by its name."""
    names: dict[str, set[str]] = {}
    for name, family in found.items():
        names.setdefault(name, set())
        if family.kind == "histogram":
            names |= {f"{name}{end}": set() for end in ("_bucket", "_sum", "_count")}
        for sample, rows in family.samples.items():
            names[sample] = {label for labels, _ in rows for label, _ in labels}
    return names


@pytest.mark.product
@pytest.mark.parametrize("read", [in_rules, in_dashboard])
def test_rules_and_dashboard_use_only_existing_metrics(computed: Site, read: Any) -> None:
    there = exported(scrape())
    expressions = read()
    assert len(expressions) > 8
    named = {name for expression in expressions for name in NAME.findall(expression)}
    assert named
    assert named - set(there) == set()


def test_alert_rules_name_the_remedy() -> None:
    rules = yaml.safe_load((DOCS / "monitoring/alerts.yml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert set(rule["annotations"]) == {"summary", "remedy"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert re.fullmatch(r"\d+[mhd]", rule["for"])


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    board = json.loads((DOCS / "monitoring/grafana.json").read_text(encoding="utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.product
def test_exactly_the_existing_metrics_are_documented(computed: Site) -> None:
    documented = set(re.findall(r"^\| `(fairshare_[a-z_]+)`", (DOCS / "monitoring.md").read_text("utf-8"), re.M))
    there = {name for name in scrape() if name.startswith("fairshare_")}
    assert documented == there
