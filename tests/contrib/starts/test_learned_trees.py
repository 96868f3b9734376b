"""Trees of a scheduler: trained on what its reports left, the same bytes from the rows alone, and one more base."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts import learned_trees
from apps.contrib.starts.learned import is_as_rows_teach, rebuild
from apps.contrib.starts.learned_trees import LASTS, SPAN, are_as_rows_teach, learn_trees, readable_trees, trained
from apps.contrib.starts.models import Outcome, StartPromise, StartState, StartTrees
from apps.contrib.starts.prediction import saved, trees
from apps.contrib.starts.prediction.bases import TREES, BaseRecord
from apps.contrib.starts.prediction.predictor import Predictor
from apps.contrib.starts.prediction.promises import Kind
from apps.contrib.starts.prediction.queue_facts import FACTS, FACTS_BYTES, LAYOUT, unpacked
from apps.contrib.starts.retention import prune_promises
from apps.contrib.starts.tasks import learn_start_trees
from apps.core.blobs import pack
from apps.engine import fast
from tests.contrib.starts.one_processor import N_JOBS, REPORTED, one_processor, report_until, reporting_agent
from tests.contrib.starts.queues import MINUTE, Reports, TrueJob, waiting
from tests.examples import first
from tests.instants import AT
from tests.small_site import Site

pytestmark = pytest.mark.django_db
NewScheduler = Callable[[], Scheduler]
LEAST = 40


@pytest.fixture(autouse=True)
def few_jobs_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_trees, "LEAST_TO_TRAIN", LEAST)
    monkeypatch.setattr(trees, "LEAST_TO_TRAIN", LEAST)


def changed_after(jobs: list[TrueJob], minute: float) -> list[TrueJob]:
    """The same jobs up to a minute; what still waits then starts much later, and others come."""
    changed = []
    for job in jobs:
        if job.start is not None and job.start > minute:
            job = job._replace(start=job.start + 3_000, end=job.end + 3_000)
        if job.submit <= minute:
            changed.append(job)
        else:
            changed.append(job._replace(submit=job.submit + 77, job=f"9{job.job}", cpus=3.0))
    return changed


def stored_of(scheduler: Scheduler) -> StartTrees:
    return StartTrees.objects.get(scheduler=scheduler)


def what_was_promised(scheduler: Scheduler, until: datetime) -> list[tuple[object, ...]]:
    rows = StartPromise.objects.filter(scheduler=scheduler, made_at__lte=until).order_by("made_in", "job")
    return [(row.job, row.made_at, row.basis, row.bounds_s, row.offers, facts_of(row)) for row in rows]


def facts_of(row: StartPromise) -> bytes:
    assert row.facts is not None
    return bytes(row.facts)


def offers_of(scheduler: Scheduler, since: datetime) -> list[list[str]]:
    rows = StartPromise.objects.filter(scheduler=scheduler, made_at__gt=since)
    return [[base for base, _bounds in offers] for offers in rows.values_list("offers", flat=True)]


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("start_promises", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def new_agent(new_scheduler: NewScheduler) -> Reports:
    """Without a report yet."""
    return Reports(new_scheduler())


@pytest.fixture
def agent(reported_queue: Site) -> Reports:
    """Of `one_processor`, until REPORTED."""
    return reporting_agent()


def test_each_promise_keeps_the_facts_of_its_queue_in_bounded_bytes(new_agent: Reports) -> None:
    new_agent.at(0, waiting(), waiting("2", cpus=8.0, user="bob"))
    first, second = map(facts_of, StartPromise.objects.order_by("job"))
    assert (FACTS_BYTES, len(first), first[0]) == (109, 109, LAYOUT)
    named = [dict(zip(FACTS, row, strict=True)) for row in unpacked([first, second]).tolist()]
    assert [round(2 ** each["cpus"]) for each in named] == [4, 8]
    assert [round(np.expm1(each["jobs_ahead"])) for each in named] == [0, 1]


@pytest.mark.deep
def test_trees_are_the_same_bytes_from_nothing_also_after_later_reports_and_without_machine_code(
    agent: Reports,
) -> None:
    jobs = one_processor()
    assert learn_start_trees() == 1
    first = stored_of(agent.scheduler)
    assert first.n_jobs >= LEAST
    report_until(agent, jobs, 4_800, after=REPORTED)
    assert are_as_rows_teach(agent.scheduler)
    with fast.switched(False):
        plain = trained(agent.scheduler, seq=first.seq, at=first.at)
    assert (bytes(plain.data), plain.digest) == (bytes(first.data), first.digest)
    assert learn_start_trees() == 1
    later = stored_of(agent.scheduler)
    assert (later.seq > first.seq, later.digest != first.digest) == (True, True)
    StartTrees.objects.all().delete()
    learn_trees(agent.scheduler)
    assert stored_of(agent.scheduler).digest == later.digest


@pytest.mark.deep
def test_the_future_changes_neither_trees_nor_promises_made_before_it(
    agent: Reports, new_scheduler: NewScheduler
) -> None:
    jobs, cut = one_processor(), 4_400
    promised: list[object] = []
    learned: list[object] = []
    other = Reports(new_scheduler())
    report_until(other, jobs, REPORTED)
    for reporter, its_jobs in ((agent, jobs), (other, changed_after(jobs, cut))):
        learn_trees(reporter.scheduler)
        report_until(reporter, its_jobs, cut, after=REPORTED)
        seq = StartState.objects.get(scheduler=reporter.scheduler).seq
        report_until(reporter, its_jobs, 6_000, after=cut)
        promised.append(what_was_promised(reporter.scheduler, AT + cut * MINUTE))
        as_left = trained(reporter.scheduler, seq=seq, at=AT + cut * MINUTE)
        learned.append((as_left.n_rows, as_left.n_jobs, as_left.data == b""))
        model = readable_trees(reporter.scheduler, AT + cut * MINUTE)
        assert model is not None
        learned.append(tuple(column.tobytes() for column in model))
        assert any(TREES in each for each in offers_of(reporter.scheduler, AT + REPORTED * MINUTE))
    assert promised[0] == promised[1]
    assert learned[:2] == learned[2:]
    assert StartPromise.objects.filter(made_at__lte=AT + cut * MINUTE).count() > 80


@pytest.mark.deep
def test_trees_are_promised_by_where_their_record_is_best_and_named(new_agent: Reports) -> None:
    jobs = one_processor()
    large = dict.fromkeys(Kind, 1e9)
    record = BaseRecord(ranks=dict.fromkeys(Kind, (TREES,)), day=10**6, weights=large, ranked=large)
    data, digest = saved.save(Predictor(record=record))
    state = {"data": data, "digest": digest, "opening": data, "opening_digest": digest}
    StartState.objects.create(scheduler=new_agent.scheduler, **state)
    report_until(new_agent, jobs, REPORTED)
    assert TREES not in {base for offers in offers_of(new_agent.scheduler, AT) for base in offers}
    learn_trees(new_agent.scheduler)
    report_until(new_agent, jobs, 4_800, after=REPORTED)
    late = StartPromise.objects.filter(scheduler=new_agent.scheduler, made_at__gt=AT + REPORTED * MINUTE)
    assert set(late.values_list("basis", flat=True)) == {TREES}
    assert is_as_rows_teach(new_agent.scheduler)
    assert not rebuild(new_agent.scheduler)


@pytest.mark.deep
def test_too_few_settled_jobs_teach_no_trees_and_the_command_names_their_number(
    agent: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (learned_trees, trees):
        monkeypatch.setattr(module, "LEAST_TO_TRAIN", N_JOBS + 1)
    assert learn_start_trees() == 0
    stored = stored_of(agent.scheduler)
    assert (stored.digest, bytes(stored.data), 0 < stored.n_jobs <= N_JOBS) == ("", b"", True)
    assert readable_trees(agent.scheduler, stored.at) is None
    assert f"of {N_JOBS + 1} started jobs to learn from, {stored.n_jobs} are known" in printed(agent.scheduler.name)


@pytest.mark.parametrize("damage", first(1, ["bytes", "format", "inputs"]))
def test_damaged_or_older_trees_are_left_out_until_they_are_trained_again(
    agent: Reports, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = one_processor()
    learn_trees(agent.scheduler)
    whole = stored_of(agent.scheduler)
    data, digest = pack({"edges": np.zeros(1)}, {"format": 0})
    changes: dict[str, dict[str, Any]] = {
        "bytes": {"data": bytes(whole.data)[:-1] + b"\0"},
        "format": {"data": data, "digest": digest},
        "inputs": {"n_rows": whole.n_rows + 1},
    }
    StartTrees.objects.update(**changes[damage])
    report_until(agent, jobs, 4_000, after=REPORTED)
    assert "left out until they are trained again" in caplog.text
    assert TREES not in {base for offers in offers_of(agent.scheduler, AT + REPORTED * MINUTE) for base in offers}
    assert "differs" in printed(agent.scheduler.name)
    assert "made from them" in printed(agent.scheduler.name, "--rebuild")
    assert "is what the rows" in printed(agent.scheduler.name)
    report_until(agent, jobs, 4_800, after=4_000)
    assert TREES in {base for offers in offers_of(agent.scheduler, AT + 4_000 * MINUTE) for base in offers}


def test_unreadable_trees_of_the_same_report_are_trained_again_by_the_daily_task(agent: Reports) -> None:
    learn_trees(agent.scheduler)
    whole = stored_of(agent.scheduler)
    StartTrees.objects.update(digest="0" * 64)
    assert learn_start_trees() == 1
    assert stored_of(agent.scheduler).digest == whole.digest


def test_a_training_that_is_cut_off_leaves_the_trees_of_the_day_before(
    agent: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = one_processor()
    learn_trees(agent.scheduler)
    before = stored_of(agent.scheduler)
    report_until(agent, jobs, 4_400, after=REPORTED)

    def cut_off(*_arguments: object) -> None:
        raise KeyboardInterrupt

    for name in ("train", "save_trees"):
        with monkeypatch.context() as patch:
            patch.setattr(learned_trees, name, cut_off)
            with pytest.raises(KeyboardInterrupt):
                learn_trees(agent.scheduler)
        assert (stored_of(agent.scheduler).digest, stored_of(agent.scheduler).seq) == (before.digest, before.seq)
        assert are_as_rows_teach(agent.scheduler)


def test_old_trees_are_not_read_and_go_before_the_rows_that_taught_them(agent: Reports) -> None:
    learn_trees(agent.scheduler)
    at = stored_of(agent.scheduler).at
    assert readable_trees(agent.scheduler, at + LASTS - MINUTE) is not None
    assert readable_trees(agent.scheduler, at + LASTS) is None
    prune_promises(at=at + timedelta(days=90) - SPAN)
    assert StartTrees.objects.exists()
    prune_promises(at=at + timedelta(days=91))
    assert not StartTrees.objects.exists()


def test_trees_go_with_their_scheduler(agent: Reports) -> None:
    learn_trees(agent.scheduler)
    agent.scheduler.delete()
    assert not StartTrees.objects.exists()


def test_of_a_job_that_waits_or_was_held_only_what_was_settled_is_learned(new_agent: Reports) -> None:
    """Its last broken deadline, and the time of the hold."""
    new_agent.at(0, waiting(), waiting("2"), waiting("3"))
    new_agent.at(30, waiting(), waiting("2", is_held=True, reason="JobHeldUser"), waiting("3"))
    new_agent.at(70, waiting(), waiting("2", is_held=True, reason="JobHeldUser"))
    state = StartState.objects.get(scheduler=new_agent.scheduler)
    rows = {row.job: row for row in learned_trees._settled_rows(new_agent.scheduler, state.seq, AT + 70 * MINUTE)}
    assert set(rows) == {"1", "2"}  # the third one is in no list: nobody knows whether it waits
    ends = {job: learned_trees._end(row, state.seq, AT + 70 * MINUTE) for job, row in rows.items()}
    assert ends["1"] == (AT + 60 * MINUTE, False)
    assert ends["2"] == (AT + 30 * MINUTE, False)
    promise = StartPromise.objects.get(job="1", is_first=True)
    assert promise.outcomes == [Outcome.BROKEN] * 3
    assert learned_trees._settled_rows(new_agent.scheduler, 1, AT) == []
