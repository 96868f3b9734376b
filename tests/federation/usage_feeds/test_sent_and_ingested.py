"""What a feed of ours sends is what a subscription of ours ingests: hours, corrections, gaps and running jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings

from apps.accounts.actor import COMMAND
from apps.federation.documents.site_keys import load_keys
from apps.federation.models import Fetch, Subscription
from apps.federation.publishing import make_publication
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.usage.models import Source
from apps.usage.quality.bucket_audit import audit_buckets
from tests.federation.fetches import cores_running, counted, look_at
from tests.federation.other_side import OtherSide, serving
from tests.federation.usage_feeds.feed_site import HOUR, built_and_read, make_teller
from tests.instants import AT

pytestmark = pytest.mark.django_db


class Both:
    """One database in both roles: it publishes as site-b.example, and ingests as site.example."""

    def __init__(self, side: OtherSide, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
        self._side, self._settings, self._monkeypatch = side, settings, monkeypatch
        self.teller = make_teller()
        self.teller.map(P_A1="/VO-A/P-A1", P_A2="/VO-A/P-A2")
        self._be("site.example", "site-a")
        make_publication(policy_slug="grid", entry="/VO-A", name="our-vo", at=AT, actor=COMMAND)
        self.row = subscribe(
            policy_slug="grid",
            entry="/VO-A",
            url=side.url,
            issuer="site-b.example",
            feed="vo-a",
            fingerprint=load_keys(at=AT).key.public.fingerprint,
            capacity_cores=100,
            reason="r",
            at=AT,
            actor=COMMAND,
        )

    def fetched(self, minutes: float = 0.0) -> Fetch:
        at = AT + timedelta(minutes=minutes)
        self._be("site-b.example", "site-b")
        self.row.refresh_from_db()
        found = built_and_read(self.teller.feed, since=self.row.number, seen=self.row.seen_number, at=at)
        assert found is not None
        self._side.serves = found.data
        self._be("site.example", "site-a")
        return look_at(self.row, self._monkeypatch, at)

    def expected(self) -> dict[tuple[UUID, object], float]:
        """The buckets of the sending site, hours in which only a job ended included."""
        sums = self.teller.expected()
        return {
            (uid, AT + (hour - int(AT.timestamp()) // 3600) * HOUR): amounts[0]
            for hour, of in sums.items()
            for uid, amounts in of.items()
        }

    def _be(self, issuer: str, site: str) -> None:
        self._settings.FAIRSHARE_ISSUER, self._settings.FAIRSHARE_SITE = issuer, site


@pytest.fixture
def both(db: None, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    with serving(OtherSide(at=AT)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{side.port}"]
        yield Both(side, settings, monkeypatch)


def test_ingested_usage_equals_sent_usage_after_corrections_and_gaps(both: Both) -> None:
    both.teller.job(1, "anna", "P-A1", ago_h=3, hours=2, cpus=4.0)
    both.teller.job(2, "bert", "P-A1", ago_h=2.5, cpus=0.3)
    both.teller.job(3, "carl", "P-A2", ago_h=30, hours=5)
    assert both.fetched().outcome == "applied"
    assert counted(both.row) == both.expected() != {}
    both.teller.job(1, "anna", "P-A1", ago_h=3, hours=2, cpus=2.0, revision=2, start_at=AT - 5 * HOUR)
    both.teller.job(4, "anna", "P-A1", ago_h=0.5)
    both.teller.job(5, "carl", "P-A2", ago_h=80)
    assert both.fetched(60).outcome == "applied"
    assert counted(both.row) == both.expected()
    assert audit_buckets(Source.objects.get(pk=both.row.source_id)).n_different == 0


def test_an_unchanged_feed_ingests_nothing(both: Both) -> None:
    both.teller.job(1, "anna", "P-A1")
    both.fetched()
    before = Source.objects.get(pk=both.row.source_id).watermark
    assert both.fetched(5).outcome == "same"
    assert Source.objects.get(pk=both.row.source_id).watermark == before


def test_running_jobs_appear_and_disappear(both: Both) -> None:
    running: dict[str, Any] = {"state": "running", "end_at": None, "start_at": AT - HOUR}
    both.teller.job(1, "anna", "P-A1", cpus=8.0, **running)
    both.teller.job(2, "carl", "P-A2", cpus=2.0, **running)
    both.fetched()
    assert cores_running(both.row) == 10
    both.teller.job(1, "anna", "P-A1", cpus=8.0, start_at=AT - HOUR, ago_h=0, revision=2)
    both.fetched(5)
    assert cores_running(both.row) == 2
    assert sum(counted(both.row).values()) == 8 * 3_600
    assert Subscription.objects.get().running_held is False
