"""`manage.py start_record`: the record of promises on the jobs of a source equals a replay of the log it came from."""

from __future__ import annotations

import io
import json
from datetime import UTC, timedelta

import pytest
from django.core.management import CommandError, call_command

from apps.contrib.starts.management.commands import start_record
from apps.contrib.starts.prediction.predictor import of_kind, replay
from apps.contrib.starts.prediction.promises import LEVELS, Kind
from apps.contrib.starts.prediction.record import held, held_by_burst
from apps.core import clock
from tests.contrib.starts.logs import N_JOBS, import_log, swf_log

pytestmark = pytest.mark.django_db


def _printed(*options: str) -> str:
    out = io.StringIO()
    call_command("start_record", "log", *options, stdout=out)
    return out.getvalue()


def test_the_record_of_a_source_is_that_of_its_log() -> None:
    at = clock.now()
    start = (at - timedelta(days=20)).replace(microsecond=0).astimezone(UTC)
    text, jobs = swf_log(int(start.timestamp()), waits=True)
    import_log(text, at)
    numbers = json.loads(_printed("--json"))
    expected = replay(jobs)
    for kind in Kind:
        past = of_kind(expected, kind)
        for place, level in enumerate(LEVELS):
            row = numbers[kind][place]
            assert row["level"] == level
            assert (row["promises"], row["withdrawn"]) == (held(past, place).n, held(past, place).withdrawn)
            assert row["held"] == pytest.approx(held(past, place).share)
            assert row["held_by_burst"] == pytest.approx(held_by_burst(past, place).share)
    assert sum(row["withdrawn"] for row in numbers[Kind.SUBMIT]) > 0
    assert _printed().splitlines()[:2][1].startswith("  50%: ")
    assert json.loads(_printed("--json", "--days", "400")) == numbers


def test_a_source_without_waits_is_refused_with_the_reason() -> None:
    at = clock.now()
    text, _jobs = swf_log(int((at - timedelta(days=5)).timestamp()), waits=False)
    import_log(text, at)
    with pytest.raises(CommandError, match="No job of log waited in the last 90 days, or it"):
        _printed()
    with pytest.raises(CommandError, match="from 1 to 400"):
        _printed("--days", "0")


def test_more_jobs_than_memory_is_meant_for_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    at = clock.now()
    text, _jobs = swf_log(int((at - timedelta(days=20)).timestamp()), waits=True)
    import_log(text, at)
    monkeypatch.setattr(start_record, "_MOST_JOBS_OF_RECORD", N_JOBS - 1)
    with pytest.raises(CommandError, match="more than 299 jobs: ask for fewer days"):
        _printed()
    monkeypatch.setattr(start_record, "_MOST_JOBS_OF_RECORD", N_JOBS)
    assert _printed().startswith("submit:")
