"""A peer that was away is fetched soon after its return: by a bounded wait, and at once when it asks us."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.federation.fetch_requests import ISSUER_HEADER, wait_s
from apps.federation.fetch_schedule import KIND, request_due_fetches, request_fetch
from apps.federation.models import Mount, Subscription
from apps.federation.publishing import make_publication
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.each_case import each_case
from tests.federation.other_side import OtherFeed
from tests.instants import AT

MINUTE = timedelta(minutes=1)
OURS = "/api/v1/publications/vo-b"


@each_case("every_s", [10, 60, 300, 3_600, 30 * 86_400])
@each_case("n_failed", [1, 2, 6, 1_000])
def test_backoff_never_exceeds_five_minutes(every_s: int, n_failed: int) -> None:
    failed = Mount(pk=1, every_s=every_s, n_failed=n_failed)
    assert min(every_s, 285) <= wait_s(failed, is_good=False) <= 300
    assert wait_s(failed, is_good=True) >= 0.95 * every_s


def fetch(subscription: Subscription, monkeypatch: pytest.MonkeyPatch, at: datetime) -> str:
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    outcome: str = work_run_now(request_fetch(subscription, at=at).pk).result["outcome"]
    subscription.refresh_from_db()
    return outcome


@pytest.fixture
def away(subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch) -> Subscription:
    """A subscription whose peer didn't answer twice; it reads what we publish, and the next try is minutes away."""
    make_publication(policy_slug="grid", entry="/VO-B", name="vo-b", is_open=True, at=AT, actor=COMMAND)
    feed.tell({})
    feed.status = 503
    for at in (AT, AT + MINUTE):
        assert fetch(subscription, monkeypatch, at) == "unreachable"
    assert subscription.due_at is not None
    assert subscription.due_at > AT + 4 * MINUTE
    feed.status = 200
    return subscription


def is_asked() -> bool:
    return Run.objects.filter(kind=KIND, state=Run.State.QUEUED).exists()


def asks(issuer: str, at: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    assert Client().get(OURS, headers={ISSUER_HEADER: issuer}).status_code == 200


def test_a_peer_that_contacts_us_is_fetched_at_once(away: Subscription, monkeypatch: pytest.MonkeyPatch) -> None:
    back = AT + 2 * MINUTE
    assert request_due_fetches(at=back) == 0, "on schedule it isn't due"
    asks("site-b.example", back, monkeypatch)
    run = Run.objects.get(subject=f"usage:{away.pk}", state=Run.State.QUEUED)
    assert work_run_now(run.pk).result["outcome"] == "applied"


@pytest.mark.parametrize("issuer", ["vo-z.example", "", "x" * 200, "site-b.example\x00"])
def test_unknown_site_names_trigger_no_fetch(away: Subscription, issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asks(issuer, AT + 2 * MINUTE, monkeypatch)
    assert not is_asked()


def test_an_unverified_name_triggers_one_fetch_in_ten_seconds(
    away: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.status = 503
    back = AT + 2 * MINUTE
    asks("site-b.example", back, monkeypatch)
    assert fetch(away, monkeypatch, back) == "unreachable"
    asks("site-b.example", back + timedelta(seconds=9), monkeypatch)
    assert not is_asked()
    asks("site-b.example", back + timedelta(seconds=10), monkeypatch)
    assert is_asked()


def test_paused_mounts_are_not_fetched_on_contact(away: Subscription, monkeypatch: pytest.MonkeyPatch) -> None:
    Subscription.objects.update(state=Subscription.State.PAUSED)
    asks("site-b.example", AT + 2 * MINUTE, monkeypatch)
    assert not is_asked()


def test_each_request_carries_the_name_of_this_site(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({})
    fetch(subscription, monkeypatch, AT)
    assert feed.asked[-1][ISSUER_HEADER.lower()] == "site.example"
