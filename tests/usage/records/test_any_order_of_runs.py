"""Formats with several lines or rows of a job: files in any order, and again, count what the jobs held."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.db.models import Sum

from apps.accounts.actor import COMMAND
from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers.base import Collector, Reading
from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.sacct import Sacct
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.usage.parsers.test_gridengine import line as gridengine_line

pytestmark = pytest.mark.django_db
AT = datetime(2027, 1, 9, tzinfo=UTC)
FIRST_S = int(datetime(2026, 12, 29, tzinfo=UTC).timestamp())
DAY_S = 86_400
Held = defaultdict[int, float]  # CPU seconds by hour since 1970
HEADER = "JobIDRaw|Cluster|User|Account|Submit|Eligible|Start|End|ElapsedRaw|State|AllocCPUS|AllocTRES|TimelimitRaw\n"


def add(held: Held, from_s: int, to_s: int, cpus: int) -> None:
    for hour in range(from_s // 3600, -(-to_s // 3600)):
        held[hour] += cpus * (min(to_s, hour * 3600 + 3600) - max(from_s, hour * 3600))


def gridengine_log(rng: random.Random) -> tuple[list[tuple[int, str]], Held, set[str]]:
    """Lines with the end of each run; what is held; jobs that run. Rescheduled jobs have a line for each run."""
    lines: list[tuple[int, str]] = []
    held: Held = defaultdict(float)
    for job in range(1, 9):
        at_s = FIRST_S + rng.randrange(3 * DAY_S)
        for _ in range(rng.choice((1, 1, 2, 4))):
            start_s = at_s + rng.randrange(1, 7200)
            at_s = start_s + rng.randrange(1, 40_000)
            times = {"submitted": FIRST_S, "started": start_s, "ended": at_s}
            lines.append((at_s, gridengine_line(job_number=str(job), slots="4", failed="25", **_as_text(times))))
            add(held, start_s, at_s, 4)
    return lines, held, set()


def _as_text(times: dict[str, int]) -> dict[str, str]:
    names = {"submitted": "submission_time", "started": "start_time", "ended": "end_time"}
    return {names[name]: str(at_s) for name, at_s in times.items()}


def sacct_log(rng: random.Random) -> tuple[list[tuple[int, str]], Held, set[str]]:
    """As `sacct --duplicates` lists jobs each day: requeued ones by submission, resized ones by part; and while they
    run, the state of the day.
    """
    lines: list[tuple[int, str]] = []
    held: Held = defaultdict(float)
    running: set[str] = set()
    for job in range(1, 9):
        submit_s = FIRST_S + rng.randrange(3 * DAY_S)
        start_s, end_s, cpus = submit_s + rng.randrange(0, 7200), submit_s, 8 * rng.randrange(2, 6)
        for run in range(rng.choice((1, 1, 2, 3))):
            if run:  # requeued, with a new submission
                submit_s = end_s + rng.randrange(1, 600)
                start_s = submit_s + rng.randrange(0, 7200)
            begin_s, n_parts = start_s, rng.choice((1, 1, 2, 3))
            for part in range(n_parts):
                end_s = begin_s + rng.randrange(60, 40_000)
                is_last = part + 1 == n_parts
                of_part = submit_s if not part else begin_s
                for midnight_s in range(begin_s // DAY_S * DAY_S + DAY_S, end_s, DAY_S):
                    lines.append((midnight_s, sacct_row(job, of_part, begin_s, None, "RUNNING", cpus, midnight_s)))
                if is_last and rng.random() < 0.2 and run == 0 and n_parts == 1:
                    lines.append((end_s, sacct_row(job, of_part, begin_s, None, "RUNNING", cpus, end_s)))
                    running.add(str(job))
                    break
                state = rng.choice(("COMPLETED", "REQUEUED", "PREEMPTED")) if is_last else "RESIZING"
                lines.append((end_s, sacct_row(job, of_part, begin_s, end_s, state, cpus, end_s)))
                add(held, begin_s, end_s, cpus)
                begin_s, cpus = end_s, cpus - 8 if cpus > 8 else 16
            if str(job) in running:
                break
    return lines, held, running


def sacct_row(job: int, submit_s: int, start_s: int, end_s: int | None, state: str, cpus: int, at_s: int) -> str:
    end = "Unknown" if end_s is None else str(end_s)
    times = f"{submit_s}|{submit_s}|{start_s}|{end}|{(end_s or at_s) - start_s}"
    return f"{job}|c1|ada|phys|{times}|{state}|{cpus}|cpu={cpus},mem={cpus}G,node=1|6000\n"


Maker = Callable[[random.Random], tuple[list[tuple[int, str]], Held, set[str]]]
LOGS: dict[str, tuple[Collector, Maker, str]] = {
    "gridengine": (GridEngine(), gridengine_log, ""),
    "sacct": (Sacct(), sacct_log, HEADER),
}


def files_of(lines: list[tuple[int, str]], header: str, rng: random.Random) -> Iterator[str]:
    days: defaultdict[int, list[str]] = defaultdict(list)
    for at_s, text in lines:
        days[at_s // DAY_S].append(text)
    files = [of_day if rng.random() < 0.5 else rng.sample(of_day, len(of_day)) for of_day in days.values()]
    files += rng.choices(files, k=2)
    rng.shuffle(files)
    for file in files:
        yield header + "".join(file)


def take(collector: Collector, text: str, source: Source) -> None:
    for piece in collector.parse(io.BytesIO(text.encode()), Reading(AT, ZoneInfo("UTC"))):
        assert piece.rejections == []
        ingest_batch(source=source, rows=piece.batch, at=AT)


def wrong_of(name: str, seed: int) -> list[str]:
    collector, make_log, header = LOGS[name]
    rng = random.Random(seed)
    lines, held, running = make_log(rng)
    source = make_source(NewSource(slug=f"{name}-{seed}", name=f"{name} {seed}"), at=AT, actor=COMMAND)
    for text in files_of(lines, header, rng):
        take(collector, text, source)
    rows = Bucket.objects.filter(source=source).values_list("hour_at").annotate(Sum("cpu_s"))
    hours = {int(hour_at.timestamp()) // 3600: cpu_s for hour_at, cpu_s in rows if cpu_s}
    wrong = [
        f"{hour}: {hours.get(hour)}, right {held.get(hour)}"
        for hour in held.keys() | hours.keys()
        if hours.get(hour) != held.get(hour)
    ]
    open_jobs = set(Record.objects.filter(source=source, state="running").values_list("job", flat=True))
    return wrong + [f"open: {sorted(open_jobs)}, right {sorted(running)}"] * (open_jobs != running)


@pytest.mark.parametrize("name", LOGS)
def test_daily_files_in_any_order_count_what_jobs_held(name: str) -> None:
    assert {seed: wrong for seed in range(1, 13) if (wrong := wrong_of(name, seed))} == {}


@pytest.mark.deep
@pytest.mark.parametrize("name", LOGS)
def test_many_logs_in_daily_files_of_any_order(name: str) -> None:
    assert {seed: wrong for seed in range(1000, 1150) if (wrong := wrong_of(name, seed))} == {}
