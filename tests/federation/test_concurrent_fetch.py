"""Who answers slowly, or never, holds up neither other peers nor other work of the same worker."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from apps.federation import concurrent_fetch, fetch_requests
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount, Subscription
from apps.runs import kinds
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_due_runs
from tests.federation.fetches import counted
from tests.federation.other_side import P1, OtherFeed, OtherSide
from tests.instants import AT

H11 = AT - timedelta(hours=1)
LONG_S = 20.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    monkeypatch.setattr(concurrent_fetch, "PATIENCE_S", 0.05)
    monkeypatch.setattr(fetch_requests, "TOTAL_S", LONG_S)


def work() -> list[str]:
    work_due_runs(clock=lambda: AT)
    return list(
        Run.objects.filter(kind="federation_fetch", created_at=AT).order_by("id").values_list("state", flat=True)
    )


def test_a_slow_peer_does_not_block_another_fetch(
    mounted: Mount, vo: OtherSide, subscription: Subscription, feed: OtherFeed
) -> None:
    """The slow one answers only once the other one was asked: one after the other, it would never come."""
    other_was_asked = threading.Event()
    vo.wait, feed.wait = lambda: other_was_asked.wait(LONG_S), other_was_asked.set
    feed.tell({H11: {P1: 60}})
    request_fetch(mounted, at=AT)
    request_fetch(subscription, at=AT)
    assert set(work()) == {"succeeded"}
    assert other_was_asked.is_set()
    assert counted(subscription) == {(P1, H11): 60}
    assert [one.outcome for one in mounted.fetches.order_by("id")] == ["applied", "same"]


def test_other_runs_proceed_while_a_peer_is_slow(
    mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_work_is_done = threading.Event()

    def other_work(_run: Run, _lease: Lease) -> dict[str, Any]:
        other_work_is_done.set()
        return {}

    monkeypatch.setitem(kinds._handlers, "other_work", other_work)
    vo.wait = lambda: other_work_is_done.wait(LONG_S)
    request_fetch(mounted, at=AT)
    enqueue_run(kind="other_work", subject="x", at=AT + timedelta(seconds=0))
    work()
    assert other_work_is_done.is_set()
    assert mounted.fetches.order_by("-id")[0].outcome == "same"


def test_a_failed_fetch_does_not_affect_others(
    mounted: Mount, vo: OtherSide, subscription: Subscription, feed: OtherFeed
) -> None:
    """A rider that was paused after it was asked for, and one whose answer never comes, don't affect other fetches."""
    second = threading.Event()
    vo.wait, feed.wait = lambda: second.wait(LONG_S), second.set
    feed.serves = b"<html>"
    gone = request_fetch(mounted, at=AT)
    request_fetch(subscription, at=AT)
    Run.objects.create(
        kind="federation_fetch",
        subject="usage:0",
        arguments={"subscription": 0},
        due_at=AT,
        created_at=AT,
        max_attempts=3,
        state="queued",
    )
    work()
    states = dict(Run.objects.filter(kind="federation_fetch").values_list("subject", "state"))
    assert states[f"mount:{mounted.pk}"] == states[f"usage:{subscription.pk}"] == "succeeded"
    assert states["usage:0"] == "failed"
    assert gone.pk
    assert Subscription.objects.get().error_code == "bad_document"
    assert Mount.objects.get().error == ""


def test_a_peer_that_never_answers_times_out(mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(fetch_requests, "TOTAL_S", 0.3)
    vo.wait = lambda: over.wait(LONG_S)
    request_fetch(mounted, at=AT)
    work()
    over.set()
    mounted.refresh_from_db()
    assert (mounted.error_code, mounted.n_failed, mounted.applied_version) == ("too_slow", 1, 1)
