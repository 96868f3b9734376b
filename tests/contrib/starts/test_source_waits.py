"""What records of a source teach about waits is a function of the records of a span, made from nothing each day."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from apps.contrib.starts import source_waits
from apps.contrib.starts.answer import StartNote
from apps.contrib.starts.models import SourceWaits
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.predictor import Predictor, replay
from apps.contrib.starts.prediction.promises import LEVELS, Kind, Outcome, WaitingJob
from apps.contrib.starts.source_waits import learn_source_waits, start_by_records
from apps.core import clock
from apps.usage.models import Import, Source
from tests.contrib.starts.logs import N_JOBS, import_log, swf_log

pytestmark = pytest.mark.django_db
JOB = WaitingJob("1", 8, 28_800.0)


def test_the_newest_records_of_a_span_teach_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not what becomes of jobs that wait at the end of the span."""
    now = clock.now()
    start = (now - timedelta(days=20)).replace(microsecond=0).astimezone(UTC)
    text, jobs = swf_log(int(start.timestamp()), waits=True)
    import_log(text, now)
    Source.objects.update(namespace="a")
    at = start + timedelta(seconds=250 * 600 + 5)
    assert learn_source_waits(at=at) == 1
    stored = SourceWaits.objects.get()
    expected, end_s = Predictor(), at.timestamp()
    known = [job._replace(left_s=None if job.leaves_s >= end_s else job.left_s) for job in jobs if job.submit_s < end_s]
    assert any(job.left_s is None for job in known)
    settled = replay(known, expected, until_s=end_s)
    assert (stored.n_jobs, stored.digest) == (250, saved.save(expected)[1])
    at_80 = [each.outcomes[LEVELS.index(0.8)] for each in settled if each.promise.kind is Kind.SUBMIT]
    assert stored.held == [at_80.count(Outcome.KEPT), at_80.count(Outcome.KEPT) + at_80.count(Outcome.BROKEN)]
    answer = start_by_records("a", JOB, at)
    assert answer is not None
    assert answer.before is not None
    assert answer.before.p80 is not None
    estimated = expected.estimate(JOB, end_s, 0.0).bounds_s[1]
    assert (answer.before.p80 - at).total_seconds() == pytest.approx(estimated, abs=1e-5)

    SourceWaits.objects.all().delete()
    learn_source_waits(at=at)
    learn_source_waits(at=at)
    assert SourceWaits.objects.get().digest == stored.digest
    monkeypatch.setattr(source_waits, "MOST_JOBS_OF_SOURCE", 100)
    learn_source_waits(at=at)
    fewer = SourceWaits.objects.get()
    assert (fewer.n_jobs, fewer.from_at > stored.from_at) == (100, True)

    assert start_by_records("a", JOB, at + source_waits.LASTS) is None, "it is made again each day, or not read"
    made = Import.objects.get()
    for undone_at, is_read in ((at - timedelta(days=1), True), (at + timedelta(minutes=1), False), (None, True)):
        Import.objects.update(undone_at=undone_at)
        assert (start_by_records("a", JOB, at) is not None) is is_read, made

    learn_source_waits(at=start + timedelta(seconds=20 * 600))
    answer = start_by_records("a", JOB, at)
    assert answer is not None
    assert (answer.before, answer.note) == (None, StartNote.LEARNING)
    assert answer.n_seen is not None
    assert 0 < answer.n_seen < 20
    Source.objects.update(namespace="elsewhere")
    assert start_by_records("a", JOB, at) is None
    SourceWaits.objects.update(digest="of something else")
    assert start_by_records("elsewhere", JOB, at) is None
    Source.objects.update(archived_at=at)
    assert (learn_source_waits(at=at), SourceWaits.objects.count()) == (0, 0)


def test_a_source_that_reports_no_waits_teaches_nothing() -> None:
    at = clock.now()
    text, _jobs = swf_log(int((at - timedelta(days=5)).timestamp()), waits=False)
    import_log(text, at)
    assert Source.objects.get().last_submit_at is not None
    assert (learn_source_waits(at=at), start_by_records("", JOB, at), N_JOBS) == (0, None, 300)
