"""What a run that waits says: behind what, in which place, or for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.runs import kinds, queues, services
from apps.runs.models import Run, SiteProcess
from apps.runs.queues import IMPORT, INTERACTIVE, SERIES
from apps.runs.services import claim_run, enqueue_run, fail_run
from apps.runs.waiting import RunWaiting, waiting_of
from tests.instants import AT

pytestmark = pytest.mark.django_db(transaction=True)
SHORT, LONG, BATCH, QUICK = "short", "long", "batch", "quick"


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_handlers", "_most_of_key", "_most_threads", "_length", "_titles"):
        monkeypatch.setattr(kinds, name, {})
    monkeypatch.setattr(queues, "_queues", {})
    monkeypatch.setattr(services, "send_runs", lambda runs, **_: None)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    of_queues: list[tuple[str, str, dict[str, Any]]] = [
        (SHORT, SERIES, {"title": "a short one", "most_of_key": 1}),
        (LONG, SERIES, {"title": "a long one", "length": 1}),
        (BATCH, IMPORT, {"title": "an import"}),
        (QUICK, INTERACTIVE, {}),
    ]
    for kind, queue, more in of_queues:
        kinds.register(kind, lambda run, lease: {}, queue=queue, **more)


def ask(kind: str, subject: str = "thing", **more: Any) -> Run:
    return enqueue_run(kind=kind, subject=subject, at=AT, **more)


def claimed(kind: str, subject: str = "thing", **more: Any) -> Any:
    lease = claim_run(at=AT, run_id=ask(kind, subject, **more).pk)
    assert lease is not None
    return lease


def waiting(run: Run) -> RunWaiting | None:
    return waiting_of(Run.objects.get(pk=run.pk), at=AT)


def answer_of(run: Run) -> tuple[str, str, str | None, int | None]:
    each = waiting(run)
    assert each is not None
    return each.reason, each.sentence, each.behind, each.place


def test_one_that_runs_or_has_ended_does_not_wait() -> None:
    lease = claimed(LONG)
    run = Run.objects.get(pk=lease.run_id)
    assert waiting(run) is None
    lease.finish({}, AT)
    assert waiting(run) is None
    assert waiting_of(None, at=AT) is None


def test_behind_a_long_one_of_another_kind() -> None:
    claimed(LONG)
    assert answer_of(ask(SHORT)) == ("queue", "It waits in its queue behind a long one, as number 1.", LONG, 1)


def test_behind_one_that_waits_too() -> None:
    """No worker has begun any; on a queue without turns the place is known whatever waits there."""
    ask(BATCH, "a")
    ask(BATCH, "b")
    last = ask(BATCH, "c")
    assert answer_of(last) == ("queue", "It waits in its queue behind an import, as number 3.", BATCH, 3)


def test_its_place_is_unknown_where_kinds_take_turns() -> None:
    ask(LONG, "a")
    assert answer_of(ask(SHORT)) == ("queue", "It waits in its queue behind a long one.", LONG, None)


def test_behind_one_of_the_same_subject() -> None:
    claimed(BATCH)
    assert answer_of(ask(BATCH)) == ("same", "It waits for the end of the one before it.", BATCH, 1)


def test_behind_others_of_its_owner() -> None:
    claimed(SHORT, "a", limit_key="user:1")
    assert answer_of(ask(SHORT, "b", limit_key="user:1"))[:2] == (
        "limit",
        "It waits: of one owner or host, at most 1 run at once.",
    )
    assert answer_of(ask(SHORT, "c", limit_key="user:2"))[0] == "queue"


def test_for_a_worker_that_is_busy_with_another_queue() -> None:
    claimed(BATCH)
    assert answer_of(ask(QUICK)) == ("worker", "It waits for a worker; one is busy with an import.", BATCH, 1)


def test_for_a_worker_that_is_there_or_not() -> None:
    run = ask(SHORT)
    assert answer_of(run) == ("no_worker", "It waits for a worker, and none is running.", None, 1)
    later = datetime.now(UTC) + timedelta(days=1)
    SiteProcess.objects.create(holder="h:1:x", role="worker", host="h", queues=[SERIES], seen_at=later)
    assert answer_of(run) == ("worker", "It waits for a worker.", None, 1)


def test_until_it_is_due_or_tried_again() -> None:
    assert answer_of(ask(BATCH, due_at=AT + timedelta(hours=1))) == ("due", "It waits until it is due.", None, None)
    lease = claimed(QUICK)
    fail_run(lease=lease, error=RuntimeError("lost"), at=AT)
    run = Run.objects.get(pk=lease.run_id)
    Run.objects.filter(pk=run.pk).update(due_at=AT + timedelta(seconds=30))
    assert answer_of(run) == ("again", "It failed, and waits to be tried again.", None, None)


def test_a_kind_without_a_title_has_its_name() -> None:
    claimed(QUICK, "a")
    assert answer_of(ask(QUICK, "b"))[1] == "It waits in its queue behind quick, as number 1."


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds as they are, not those of this module."""
    monkeypatch.undo()


def test_every_shipped_kind_has_a_title_in_plain_words(shipped: None) -> None:
    names = kinds.kinds()
    assert {"recompute", "series", "back_test"} <= set(names)
    for kind in names:
        assert kinds.title_of(kind).startswith(("a ", "an ", "the ", "calls", "mails")), kind
