"""Logs in daily files: in any order, and again, the records are those of the whole log, and what jobs held counts."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db.models import Sum

from apps.accounts.actor import COMMAND
from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers import lines
from apps.usage.parsers.base import Reading
from apps.usage.parsers.pbs import Pbs
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.usage.records.pbs_logs import Log, Truth, random_log

pytestmark = pytest.mark.django_db
AT = datetime(2027, 1, 9, tzinfo=UTC)


def take(source: Source, log: Log, text: str) -> None:
    for piece in Pbs().parse(io.BytesIO(text.encode()), Reading(AT, log.zone)):
        assert piece.rejections == []
        counts = ingest_batch(source=source, rows=piece.batch, at=AT)
        assert counts.rejections == []


def new_source(name: str) -> Source:
    return make_source(NewSource(slug=name, name=name), at=AT, actor=COMMAND)


def stored(source: Source) -> list[tuple[Any, ...]]:
    """All records that count, and the hours, without row numbers."""
    records = Record.objects.filter(source=source).exclude(state="withdrawn")
    names = ("job", "array_task", "account__user_name", "account__group_name", "job_class__queue", "state")
    keys = ("submit_at", "restart", "revision", "start_at", "end_at", "is_charge")
    numbers = ("cpus", "gpus", "nodes", "mem_mb", "requested_s")
    hours = Bucket.objects.filter(source=source).exclude(cpu_s=0, jobs=0, node_s=0, mem_gb_s=0)
    return [
        *sorted(records.values_list(*names, *keys, *numbers), key=repr),
        *sorted(hours.values_list("account__user_name", "job_class__queue", "hour_at", "cpu_s", "node_s", "jobs")),
    ]


def _asked(requested_s: float | None) -> float:
    return -1.0 if requested_s is None else requested_s


def seen(source: Source) -> Truth:
    """What is stored, in the terms of the truth."""
    truth = Truth()
    hours = Bucket.objects.filter(source=source).values_list("account__user_name", "hour_at").annotate(Sum("cpu_s"))
    for user, hour_at, cpu_s in hours:
        truth.held[user, int(hour_at.timestamp()) // 3600] += cpu_s
    for row in Record.objects.filter(source=source):
        if row.state == "finished" and row.start_at and row.end_at:
            truth.of_jobs[row.job] += row.cpus * (row.end_at - row.start_at).total_seconds()
        elif row.state == "running" and row.start_at:
            truth.open_jobs[row.job] = (int(row.start_at.timestamp()), row.cpus, _asked(row.requested_s))
        elif row.state == "pending":
            truth.waiting[row.job] = _asked(row.requested_s)
    return truth


def differences(right: Truth, got: Truth) -> list[str]:
    wrong = []
    for name in ("of_jobs", "held", "open_jobs", "waiting"):
        expected, imported = ({k: v for k, v in getattr(each, name).items() if v} for each in (right, got))
        wrong += [
            f"{name} {key}: {imported.get(key)}, right: {expected.get(key)}"
            for key in sorted(expected.keys() | imported.keys(), key=str)
            if expected.get(key) != imported.get(key)
        ]
    return wrong


def any_order(log: Log, rng: random.Random) -> list[str]:
    """The files of the days as a careless operator sends them: late, twice, half at first, with lines out of order."""
    days = log.days()
    files: list[str] = []
    for day in rng.sample(days, len(days)):
        lines = rng.sample(day, len(day)) if rng.random() < 0.4 else day
        if rng.random() < 0.3:
            files.append("".join(lines[: rng.randrange(1, len(lines) + 1)]))
        files.append("".join(lines))
        if rng.random() < 0.4:
            files.insert(rng.randrange(len(files)), "".join(lines))
    return files


def wrong_logs(seeds: Sequence[int]) -> dict[int, list[str]]:
    """By seed, what differs from the truth, or from the log read at once."""
    wrong: defaultdict[int, list[str]] = defaultdict(list)
    for seed in seeds:
        log, rng = random_log(seed), random.Random(-seed)
        whole, parted = new_source(f"whole-{seed}"), new_source(f"parted-{seed}")
        take(whole, log, "".join(line for day in log.days() for line in day))
        for text in any_order(log, rng):
            take(parted, log, text)
        wrong[seed] += [f"whole: {each}" for each in differences(log.truth, seen(whole))]
        wrong[seed] += [f"parted: {each}" for each in differences(log.truth, seen(parted))]
        once, again = stored(whole), stored(parted)
        wrong[seed] += [f"once {each}" for each in once if each not in again]
        wrong[seed] += [f"parted {each}" for each in again if each not in once]
    return {seed: differ for seed, differ in wrong.items() if differ}


def test_a_log_in_daily_files_of_any_order_counts_what_jobs_held() -> None:
    assert wrong_logs(range(1, 13)) == {}


@pytest.mark.deep
@pytest.mark.parametrize("first", range(0, 400, 50))
@pytest.mark.parametrize("piece_bytes", [256 * 1024, 3_000])
def test_many_logs_in_daily_files_of_any_order(first: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_READ", "_BLOCK"):
        monkeypatch.setattr(lines, name, piece_bytes)
    assert wrong_logs(range(1000 + first, 1000 + first + 50)) == {}
