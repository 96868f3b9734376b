"""Health, readiness and metrics, at the root."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from apps.policies.recompute_runs import queue_recompute
from apps.priorities.models import Snapshot
from apps.priorities.serving import shared_files, store
from apps.usage.models import Source
from tests.instants import AT
from tests.rest_site import refused
from tests.small_site import Site

ELSEWHERE = "192.0.2.7"


def ready() -> tuple[int, dict[str, Any]]:
    answer = Client().get("/readyz")
    return answer.status_code, answer.json()


def codes(answer: dict[str, Any]) -> set[tuple[str, str]]:
    return {(found["code"], found["subject"]) for found in answer["degraded"]}


def test_liveness_needs_no_database(client: Client) -> None:
    answer = client.get("/healthz")  # no database mark on this test: a query would fail it
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_allow_only_get(client: Client, path: str) -> None:
    answer = client.post(path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.json()["code"] == "method_not_allowed"


def test_a_site_without_snapshots_is_ready_and_reports_it(site: Site) -> None:
    status, answer = ready()
    assert (status, answer["status"]) == (200, "degraded")
    assert codes(answer) == {("no_snapshot", "grid"), ("no_snapshot", "other")}


@pytest.mark.fault("F17")
def test_late_sources_old_snapshots_and_waiting_runs_are_named(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=1))
    queue_recompute(computed.policy, at=AT)
    assert codes(ready()[1]) == {("no_snapshot", "other")}
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(hours=2)).isoformat())
    status, answer = ready()
    assert status == 200
    assert codes(answer) >= {("late_source", "cluster-a"), ("old_snapshot", "grid"), ("workers_silent", "workers")}
    Source.objects.update(is_paused=True)
    assert ("late_source", "cluster-a") not in codes(ready()[1])
    monkeypatch.setattr(settings, "FAIRSHARE_TICK_S", 3600)
    assert ("old_snapshot", "grid") not in codes(ready()[1]), "where that is the pace, nothing is late"


def test_a_damaged_newest_snapshot_is_named_and_counted(computed: Site) -> None:
    def gauge() -> dict[str, float]:
        text = Client().get("/metrics").content.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        return {one.labels["policy"]: one.value for one in families["fairshare_snapshot_damaged"].samples}

    newest = Snapshot.objects.order_by("-pk")[0]
    assert gauge() == {"grid": 0.0, "other": 0.0}
    Snapshot.objects.filter(pk=newest.pk).update(data=b"x" + bytes(newest.data))
    store.forget()
    shutil.rmtree(shared_files.directory())  # of the host: they serve what the row held before
    status, answer = ready()
    assert (status, answer["status"]) == (200, "degraded")
    assert ("damaged_snapshot", "grid") in codes(answer)
    assert gauge() == {"grid": 1.0, "other": 0.0}


def test_without_a_database_the_site_is_alive_but_not_ready(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("no server")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", refuse)
        patch.setattr(connection, "close", lambda: None)
        answer = Client().get("/readyz")
        metrics = Client().get("/metrics")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
    assert "Retry-After" in answer.headers
    assert b"fairshare_database_up 0.0" in metrics.content


def test_pending_migrations_mean_not_ready(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'priorities'")
    status, answer = ready()
    assert status == 503
    assert any("priorities." in reason for reason in answer["reasons"])


def test_metrics_are_prometheus_text_with_the_state_of_the_site(computed: Site) -> None:
    answer = Client().get("/metrics")
    found = {family.name: family for family in text_string_to_metric_families(answer.content.decode())}
    assert [sample.value for sample in found["fairshare_database_up"].samples] == [1.0]
    ranked = {sample.labels["policy"]: sample.value for sample in found["fairshare_ranked_leaves"].samples}
    assert ranked == {"grid": 3}
    assert {sample.labels["source"] for sample in found["fairshare_usage_records"].samples} == {"cluster-a"}


def test_metrics_need_an_allowed_address_or_a_token(site: Site) -> None:
    stranger = Client(REMOTE_ADDR=ELSEWHERE)
    assert refused(stranger.get("/metrics")) == (401, "unauthenticated", [])
    answer = stranger.get("/metrics", headers={"authorization": f"Bearer {site.token('priorities:read')}"})
    assert (answer.status_code, b"fairshare_database_up 1.0" in answer.content) == (200, True)
    other = stranger.get("/metrics", headers={"authorization": f"Bearer {site.token('usage:write')}"})
    assert refused(other) == (403, "insufficient_scope", [])
    assert refused(stranger.get("/metrics", headers={"authorization": "Bearer x"})) == (401, "invalid_token", [])


def test_a_forwarded_address_is_trusted_only_from_known_proxies(site: Site, settings: Any) -> None:
    answer = Client(REMOTE_ADDR=ELSEWHERE).get("/metrics", headers={"x-forwarded-for": "127.0.0.1"})
    assert refused(answer) == (401, "unauthenticated", [])
    settings.AXES_IPWARE_PROXY_COUNT = 1
    behind = Client().get("/metrics", headers={"x-forwarded-for": f"127.0.0.1, {ELSEWHERE}"})
    assert refused(behind) == (401, "unauthenticated", [])
    nearest = Client().get("/metrics", headers={"x-forwarded-for": f"{ELSEWHERE}, 127.0.0.1"})
    assert (nearest.status_code, b"fairshare_database_up 1.0" in nearest.content) == (200, True)


def test_lookups_are_counted(computed: Site) -> None:
    def count() -> float:
        text = Client().get("/metrics").content.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        return sum(
            sample.value
            for sample in families["fairshare_lookups"].samples
            if sample.name == "fairshare_lookups_total" and sample.labels["status"] == "200"
        )

    before = count()
    headers = {"authorization": f"Bearer {computed.token('priorities:read')}"}
    assert Client().get("/api/v1/policies/grid/priorities?account=bob", headers=headers).status_code == 200
    assert count() == before + 1
