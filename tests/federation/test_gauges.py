"""Prometheus gauges of mounts and of usage from others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.federation.models import HeldHour, Mount, Subscription
from apps.pages.monitoring.federation_gauges import federation_families
from tests.instants import AT

MOUNT = ("mount", "grid", "vo-a.example", "vo-a")


def gauge_values() -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (family.name, tuple(sample.labels.values())): sample.value
        for family in federation_families()
        for sample in family.samples
    }


def test_each_peer_exports_ages_and_pending_work(
    mounted: Mount, subscription: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=10)).isoformat())
    usage = ("usage", "grid", subscription.issuer, subscription.feed)
    Mount.objects.update(n_failed=3, state="blocked")
    HeldHour.objects.create(subscription=subscription, hour_at=AT, number=1, cpu_s=2.0, most_cpu_s=1.0, found_at=AT)
    found = gauge_values()
    assert found["fairshare_peer_age_seconds", MOUNT] == 600
    assert found["fairshare_peer_age_seconds", usage] == 600, "never heard: since it was set up"
    assert found["fairshare_peer_allowed_age_seconds", MOUNT] == mounted.max_age_s
    assert (found["fairshare_peer_failed_fetches", MOUNT], found["fairshare_peer_failed_fetches", usage]) == (3, 0)
    assert (found["fairshare_peer_blocked", MOUNT], found["fairshare_peer_blocked", usage]) == (1, 0)
    assert found["fairshare_mount_held_for_review", MOUNT[1:]] == 0
    assert found["fairshare_peer_held_hours", usage[1:]] == 1


def test_without_peers_the_metric_families_are_empty(db: None) -> None:
    assert gauge_values() == {}
    assert len(list(federation_families())) == 6
