"""A log of a source whose jobs wait, and its import."""

from __future__ import annotations

import io
from datetime import datetime
from random import Random

from apps.accounts.actor import COMMAND
from apps.contrib.starts.prediction.predictor import PastJob
from apps.contrib.starts.prediction.promises import WaitingJob
from apps.runs.services import work_run_now
from apps.usage.services import NewImport, start_import

N_JOBS = 300


def swf_log(start_s: int, *, waits: bool) -> tuple[bytes, list[PastJob]]:
    """In Standard Workload Format, and what is in it; every twentieth job is cancelled before it starts."""
    rng, lines, jobs = Random(3), [f"; UnixStartTime: {start_s}"], []
    for n in range(1, N_JOBS + 1):
        submit, wait, cpus = n * 600, rng.randrange(20_000) * waits, rng.choice((1, 8, 64))
        user, limit, is_cancelled = n % 5, 3_600 * cpus, waits and n % 20 == 0
        run, status = (0, 5) if is_cancelled else (60, 1)
        lines.append(f"{n} {submit} {wait} {run} {cpus} -1 -1 {cpus} {limit} -1 {status} {user} 1 -1 1 1 -1 -1")
        at_s = start_s + submit
        job = WaitingJob(str(user), cpus, limit, "1")
        jobs.append(PastJob(job, float(at_s), float(at_s + wait), not is_cancelled))
    return ("\n".join(lines) + "\n").encode(), jobs


def import_log(text: bytes, at: datetime) -> None:
    new = NewImport(source_slug="log", format="swf", file=io.BytesIO(text), file_name="log.swf", makes_source=True)
    assert work_run_now(start_import(new, at=at, actor=COMMAND).run_id).state == "succeeded"
