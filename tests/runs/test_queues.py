"""Runs on their queues: messages that are old, double or early do nothing, and lost ones are sent again."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import celery
import pytest
from django.db import connections

from apps.core import clock
from apps.runs import bell, kinds, queues, services, tasks
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.queues import FEDERATION, IMPORT, INTERACTIVE, QUEUES, RECOMPUTE, SERIES
from apps.runs.services import claim_run, enqueue_run, work_other_runs, work_run
from tests.instants import AT

pytestmark = pytest.mark.django_db(transaction=True)

Message = tuple[int, str]
Work = Callable[[Run, Lease], dict[str, Any]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    messages: list[Message] = []
    monkeypatch.setattr(services, "send_runs", lambda runs, **_: messages.extend(runs))
    return messages


@pytest.fixture(autouse=True)
def one_kind_a_queue(monkeypatch: pytest.MonkeyPatch) -> dict[str, Work]:
    """Kinds named after their queues, two of one subject or key being held back."""
    handlers: dict[str, Work] = {}
    for name in ("_handlers", "_most_of_key", "_most_threads", "_length", "_titles"):
        monkeypatch.setattr(kinds, name, handlers if name == "_handlers" else {})
    monkeypatch.setattr(queues, "_queues", {})
    monkeypatch.setattr(services, "_turns", {})
    for queue in (INTERACTIVE, RECOMPUTE, IMPORT, FEDERATION, SERIES):
        kinds.register(queue, lambda run, lease: {"done": run.pk}, queue=queue)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    return handlers


def ask(kind: str, subject: str = "thing", **given: Any) -> Run:
    return enqueue_run(kind=kind, subject=subject, at=AT, **given)


def state(run: Run) -> str:
    return str(Run.objects.values_list("state", flat=True).get(pk=run.pk))


def test_every_registered_kind_has_a_queue_that_workers_consume() -> None:
    names = [queue.name for queue in celery.current_app.conf.task_queues]
    assert names == list(QUEUES)
    with pytest.raises(ValueError, match="no queue outgoing"):
        kinds.register("x", lambda run, lease: {}, queue="outgoing")


def test_a_run_is_sent_once_after_commit_and_only_when_it_is_due(sent: list[Message]) -> None:
    run = ask(RECOMPUTE)
    later = ask(RECOMPUTE, "later", due_at=AT + timedelta(hours=1))
    joined = enqueue_run(kind=RECOMPUTE, subject="thing", at=AT + timedelta(seconds=1))
    assert joined.pk == run.pk
    assert sent == [(run.pk, RECOMPUTE)], "the one that it joins was sent"
    enqueue_run(kind=RECOMPUTE, subject="later", at=AT)
    assert sent[1:] == [(later.pk, RECOMPUTE)], "earlier than it was asked for before"


@pytest.mark.fault("F14")
def test_old_double_and_early_messages_do_nothing(sent: list[Message]) -> None:
    run, early = ask(RECOMPUTE), ask(RECOMPUTE, "early", due_at=AT + timedelta(hours=1))
    assert tasks.work_run(run.pk, RECOMPUTE)
    done = Run.objects.get(pk=run.pk)
    assert not tasks.work_run(run.pk, RECOMPUTE)
    assert not tasks.work_run(early.pk, RECOMPUTE)
    assert not tasks.work_run(10**9, RECOMPUTE)
    assert not tasks.work_run(early.pk, "kind of another release")
    assert Run.objects.get(pk=run.pk).result == done.result
    assert (state(early), Run.objects.get(pk=early.pk).attempts) == ("queued", 0)


def test_a_message_from_before_a_takeover_does_nothing_beside_the_new_worker(sent: list[Message]) -> None:
    """RabbitMQ delivers again when a worker is lost, Redis after an hour."""
    run = ask(IMPORT)
    lease = claim_run(at=AT)
    assert lease is not None
    assert not tasks.work_run(run.pk, IMPORT)
    lease.give_up()
    assert tasks.work_run(run.pk, IMPORT)
    assert (state(run), Run.objects.get(pk=run.pk).fence) == ("succeeded", 2)


def test_the_end_of_a_run_sends_what_its_subject_held_back(
    sent: list[Message], one_kind_a_queue: dict[str, Work]
) -> None:
    second: list[Run] = []

    def ask_again(run: Run, lease: Lease) -> dict[str, Any]:
        if not second:
            second.append(ask(RECOMPUTE))
            assert not tasks.work_run(second[0].pk, RECOMPUTE), "its subject is at work"
            sent.clear()
        return {}

    one_kind_a_queue[RECOMPUTE] = ask_again
    tasks.work_run(ask(RECOMPUTE).pk, RECOMPUTE)
    assert sent == [(second[0].pk, RECOMPUTE)]
    sent.clear()
    assert tasks.work_run(second[0].pk, RECOMPUTE)
    assert sent == []


def test_the_end_of_a_run_sends_what_its_limit_held_back(sent: list[Message]) -> None:
    kinds.register(FEDERATION, lambda run, lease: {}, queue=FEDERATION, most_of_key=1)
    runs = [ask(FEDERATION, f"peer {n}", limit_key="owner") for n in range(3)]
    lease = claim_run(at=AT)
    assert lease is not None
    assert [tasks.work_run(run.pk, FEDERATION) for run in runs] == [False] * 3
    sent.clear()
    services.work_lease(lease)
    assert sent == [(run.pk, FEDERATION) for run in runs[1:]]
    while sent:
        tasks.work_run(*sent.pop(0))
    assert {state(run) for run in runs} == {"succeeded"}


def test_a_thread_that_ends_sends_what_waited_for_it(sent: list[Message], one_kind_a_queue: dict[str, Work]) -> None:
    kinds.register(FEDERATION, lambda run, lease: {}, queue=FEDERATION, most_threads=1)
    first, second = ask(FEDERATION, "a"), ask(FEDERATION, "b")
    refused: list[bool] = []

    def work(run: Run, lease: Lease) -> dict[str, Any]:
        if run.pk == first.pk:
            refused.append(work_run(second.pk, FEDERATION, clock=clock.now))
            sent.clear()
        return {}

    one_kind_a_queue[FEDERATION] = work
    assert tasks.work_run(first.pk, FEDERATION)
    assert refused == [False]
    assert sent == [(second.pk, FEDERATION)]
    assert tasks.work_run(second.pk, FEDERATION)


def test_a_released_run_is_sent_again(
    sent: list[Message], one_kind_a_queue: dict[str, Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.runs import shutdown

    monkeypatch.setattr(shutdown, "_stop_requested", bytearray(1))

    def stop(run: Run, lease: Lease) -> dict[str, Any]:
        shutdown.request_stop()
        work_other_runs(lease)
        return {}

    one_kind_a_queue[IMPORT] = stop
    run = ask(IMPORT)
    sent.clear()
    assert tasks.work_run(run.pk, IMPORT)
    assert state(run) == "queued"
    assert sent == [(run.pk, IMPORT)]


@pytest.mark.parametrize("long", [SERIES, IMPORT])
def test_a_recompute_waits_for_one_step_of_long_runs_and_not_for_their_end(
    long: str, sent: list[Message], one_kind_a_queue: dict[str, Work]
) -> None:
    """Two workers, both in the steps of a long run: what a person or a scheduler waits for goes between."""
    recompute: list[Run] = []
    between: list[str] = []
    both_work = threading.Barrier(2)

    def in_steps(run: Run, lease: Lease) -> dict[str, Any]:
        both_work.wait(30)
        if run.subject == "a":
            recompute.append(ask(RECOMPUTE))
        both_work.wait(30)
        work_other_runs(lease)
        both_work.wait(30)
        between.append(state(recompute[0]))
        return {}

    one_kind_a_queue[long] = in_steps
    runs = [ask(long, subject) for subject in ("a", "b")]

    def one_worker(run: Run) -> None:
        try:
            tasks.work_run(run.pk, long)
        finally:
            connections.close_all()

    workers = [threading.Thread(target=one_worker, args=(run,)) for run in runs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert between == ["succeeded"] * 2
    assert Run.objects.get(kind=RECOMPUTE).attempts == 1
    assert not tasks.work_run(recompute[0].pk, RECOMPUTE), "its own message comes too late, and does nothing"


def test_before_a_run_begins_earlier_queues_are_empty(sent: list[Message], one_kind_a_queue: dict[str, Work]) -> None:
    order: list[str] = []
    for kind in list(one_kind_a_queue):
        one_kind_a_queue[kind] = lambda run, lease: order.append(run.kind) or {}  # type: ignore[func-returns-value]
    asked = [ask(kind) for kind in (SERIES, FEDERATION, IMPORT, RECOMPUTE, INTERACTIVE)]
    tasks.work_run(asked[0].pk, SERIES)
    assert order == [INTERACTIVE, RECOMPUTE, IMPORT, FEDERATION, SERIES]


def test_kinds_of_one_queue_take_turns_and_long_ones_let_shorter_ones_through(
    sent: list[Message],
) -> None:
    """Five short runs were asked for before one of each longer kind; none of them comes last."""
    steps: list[str] = []

    def in_steps(run: Run, lease: Lease) -> dict[str, Any]:
        for _ in range(3):
            steps.append(run.kind)
            work_other_runs(lease)
        return {}

    for length, kind in enumerate(("short", "long", "longest")):
        kinds.register(kind, in_steps, queue=SERIES, length=length)
    for number in range(5):
        ask("short", str(number))
    for kind in ("long", "longest"):
        ask(kind)
    while sent:
        work_run(*sent.pop(0), clock=lambda: AT)
    assert sorted(steps) == sorted(3 * (5 * ["short"] + ["long", "longest"]))
    begun = [next(at for at, kind in enumerate(steps) if kind == name) for name in ("short", "long", "longest")]
    assert begun[0] == 0
    assert begun[1:] == [3, 9], "after a run of each other kind, and the short run that the long one let through"


def test_a_message_of_another_host_waits_for_no_run_of_another_kind(sent: list[Message]) -> None:
    """Where no kind is longer than another, runs begin in the order of their messages."""
    begun: list[str] = []

    def begin(run: Run, lease: Lease) -> dict[str, Any]:
        begun.append(run.kind)
        return {}

    for kind in ("webhook", "collection"):
        kinds.register(kind, begin, queue=FEDERATION)
    for number in range(2):
        ask("webhook", str(number))
    ask("collection")
    for message in list(sent):
        work_run(*message, clock=lambda: AT)
    assert begun == ["webhook", "webhook", "collection"]


def test_a_worker_of_one_queue_leaves_the_others_alone(
    sent: list[Message], one_kind_a_queue: dict[str, Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = celery.current_app.amqp.Queues(celery.current_app.conf.task_queues)
    chosen.select([SERIES])
    monkeypatch.setattr(celery.current_app.amqp, "_consumes", chosen, raising=False)
    monkeypatch.setattr(type(celery.current_app.amqp), "queues", property(lambda self: self._consumes))
    one_kind_a_queue[SERIES] = lambda run, lease: {"others": work_other_runs(lease)}
    waits, run = ask(RECOMPUTE), ask(SERIES)
    assert tasks.work_run(run.pk, SERIES)
    assert (state(run), state(waits)) == ("succeeded", "queued")


@pytest.fixture
def broker(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], list[Message]]]:
    """A broker of files with nothing in it; the call takes the messages of a queue from it."""
    options = {}
    for name in ("data_folder_in", "data_folder_out", "control_folder"):
        (tmp_path / name.partition("_")[0]).mkdir(exist_ok=True)
        options[name] = str(tmp_path / name.partition("_")[0])
    app = celery.current_app
    monkeypatch.setitem(app.conf, "broker_transport_options", options)
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)

    def taken(queue: str) -> list[Message]:
        found = []
        with app.connection_for_write() as connection, connection.SimpleQueue(queue) as waiting:
            try:
                while True:
                    message = waiting.get(block=False)
                    message.ack()
                    found.append(tuple(message.payload[0]))
            except waiting.Empty:
                return found

    yield taken
    shutil.rmtree(tmp_path / "data", ignore_errors=True)


def test_each_kind_is_sent_to_its_queue_with_its_id_and_name(broker: Callable[[str], list[Message]]) -> None:
    runs = {kind: ask(kind) for kind in (INTERACTIVE, RECOMPUTE, IMPORT, FEDERATION, SERIES)}
    assert {kind: broker(kind) for kind in runs} == {kind: [(run.pk, kind)] for kind, run in runs.items()}
    assert broker("celery") == []


def test_a_wiped_broker_is_filled_again_by_the_sweep_each_run_once(broker: Callable[[str], list[Message]]) -> None:
    runs = [ask(IMPORT, f"source {n}") for n in range(3)]
    other = ask(RECOMPUTE)
    assert len(broker(IMPORT)) == 3  # all messages are gone
    assert tasks.sweep_runs()
    assert tasks.sweep_runs()
    assert sorted(broker(IMPORT)) == [(run.pk, IMPORT) for run in runs], "where messages wait, none is sent again"
    assert broker(RECOMPUTE) == [(other.pk, RECOMPUTE)], "that queue still had its own"
