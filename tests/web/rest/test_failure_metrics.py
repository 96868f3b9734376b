"""Failures that readiness and metrics name at once, and no longer when they are over."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from apps.policies.recompute_runs import KIND, queue_recompute
from apps.priorities.serving import store
from apps.runs import kinds, services, workers
from apps.runs.models import Run
from apps.runs.tasks import sweep_runs
from apps.usage.models import Source
from tests.instants import AT
from tests.small_site import Site

MINUTE = timedelta(minutes=1)


def seen(code: str, metric: str) -> tuple[bool, float | None]:
    """As /readyz and /metrics have it."""
    degraded = {found["code"] for found in Client().get("/readyz").json()["degraded"]}
    value = re.search(rf"^{metric}(?:{{[^}}]*}})? ([0-9.]+)$", Client().get("/metrics").content.decode(), re.M)
    return code in degraded, float(value[1]) if value else None


FINE, BROKEN = (False, 0.0), (True, 1.0)


@pytest.fixture
def clock_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def put(at: Any) -> None:
        monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())

    put(AT)
    return put


def recompute_that(monkeypatch: pytest.MonkeyPatch, site: Site, *, fails: bool, is_replaced: bool = False) -> Run:
    def handler(_run: Run, _lease: Any) -> dict[str, Any]:
        if is_replaced:
            queue_recompute(site.policy, at=AT)
        if fails:
            raise RuntimeError("no such column")
        return {}

    monkeypatch.setitem(kinds._handlers, KIND, handler)
    run = queue_recompute(site.policy, at=AT)
    Run.objects.filter(pk=run.pk).update(max_attempts=3 if is_replaced else 1)
    lease = services.claim_run(at=AT, run_id=run.pk)
    assert lease is not None
    services.work_lease(lease)
    run.refresh_from_db()
    return run


@pytest.mark.parametrize(
    "is_replaced",
    [
        pytest.param(False, id="failed"),
        pytest.param(True, id="cancelled for a newer one", marks=pytest.mark.deep),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_failed_recompute(
    computed: Site, monkeypatch: pytest.MonkeyPatch, clock_at: Callable[[Any], None], is_replaced: bool
) -> None:
    """While each tick asks again, a failed run is cancelled for the newer one, and no run ever fails."""
    metric = "fairshare_recompute_failed"
    assert seen("recompute_failed", metric) == FINE
    run = recompute_that(monkeypatch, computed, fails=True, is_replaced=is_replaced)
    assert run.state == (Run.State.CANCELLED if is_replaced else Run.State.FAILED)
    assert seen("recompute_failed", metric) == BROKEN
    assert "no such column" not in Client().get("/readyz").content.decode(), "errors may name people and machines"
    Run.objects.filter(state=Run.State.QUEUED).delete()
    assert recompute_that(monkeypatch, computed, fails=False).state == Run.State.SUCCEEDED
    assert seen("recompute_failed", metric) == FINE


@pytest.mark.django_db(transaction=True)
def test_stopped_workers_are_detected_without_waiting_runs(computed: Site, clock_at: Callable[[Any], None]) -> None:
    """Stopped workers also make no runs: nothing waits, and only their last contact shows it."""
    sweep_runs()
    services.work_due_runs(clock=lambda: AT)
    sweep_runs()
    assert seen("workers_silent", "fairshare_workers_silent") == FINE
    patience = timedelta(seconds=settings.FAIRSHARE_LEASE_S)
    clock_at(AT + patience)
    assert seen("workers_silent", "fairshare_workers_silent") == FINE
    clock_at(AT + patience + timedelta(seconds=1))
    assert not Run.objects.filter(state=Run.State.QUEUED).exists()
    assert seen("workers_silent", "fairshare_workers_silent") == BROKEN
    sweep_runs()
    assert seen("workers_silent", "fairshare_workers_silent") == FINE


@pytest.mark.django_db(transaction=True)
def test_a_run_of_a_command_is_not_a_sign_of_a_worker(
    computed: Site, monkeypatch: pytest.MonkeyPatch, clock_at: Callable[[Any], None]
) -> None:
    recompute_that(monkeypatch, computed, fails=False)
    assert workers.last_contact_at() is None


@pytest.mark.django_db
def test_a_source_never_collected(computed: Site, clock_at: Callable[[Any], None]) -> None:
    metric = "fairshare_source_never_collected"
    new = {"kind": "command", "collect_every_s": 300, "last_received_at": None, "created_at": AT}
    Source.objects.update(**new)
    store.forget()
    assert seen("source_never_collected", metric) == FINE
    Source.objects.update(collect_error="no such program")
    assert seen("source_never_collected", metric) == BROKEN
    assert seen("late_source", "fairshare_source_late") == FINE, "one failure has one name"
    Source.objects.update(collect_error="", collected_at=AT)
    assert seen("source_never_collected", metric) == FINE
