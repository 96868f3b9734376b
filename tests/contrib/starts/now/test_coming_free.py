"""When cores come free: equal to a count over the running jobs, in the answer as on the page, and of the own group."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.contrib.schedulers.queue_state import PartitionState, QueueState
from apps.contrib.starts.now import coming_free as module
from apps.contrib.starts.now import listed_jobs
from apps.contrib.starts.now.coming_free import HORIZONS_S, coming_free, largest_partitions
from apps.contrib.starts.pages import now_rows
from tests.contrib.starts.now.test_listed_jobs import listed, queue_job  # noqa: F401 - fixture
from tests.contrib.starts.now.test_waits_now import level_now
from tests.instants import AT
from tests.pages.page import read, text_of
from tests.sign_in import sign_in
from tests.small_site import Site

PARTITIONS = (
    PartitionState("batch", 100, 0, {}, {}, 10, 0, 0, 7_200.0),
    PartitionState("long", 100, 0, {}, {}, 10, 0, 0, None),
)


def test_amounts_equal_a_count_over_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        rng = Random(seed)
        jobs, rows = [], []
        for n in range(rng.randrange(30)):
            more: dict[str, Any] = {
                "partition": rng.choice(("batch", "long", "batch,long", "")),
                "limit_s": rng.choice((None, 60.0, 3_600.0, 86_400.0, 10**7)),
                "cpus": rng.choice((1.0, 64.0, float("nan"))),
                "gpus": rng.choice(({}, {"a100": 2.0, "h100": 1.0})),
                "start_at": rng.choice((None, AT, AT - timedelta(seconds=rng.randrange(200_000)))),
            }
            jobs.append(queue_job(str(n), rng.choice(("running", "running", "waiting")), **more))
            rows.append(rng.randrange(-1, 2))
        state = QueueState(AT, tuple(jobs), has_running=True, partitions=PARTITIONS)
        at = AT + timedelta(minutes=rng.randrange(10))
        answer = {each.partition: each for each in coming_free("c1", state, np.array(rows, np.int64), at)}
        counted = [job for job, row in zip(jobs, rows, strict=True) if row >= 0 and job.state == "running"]
        assert set(answer) == {job.partition for job in counted}
        for name, each in answer.items():
            here = [job for job in counted if job.partition == name]
            of_partition = 7_200.0 if "batch" in name else inf
            ends = [
                ((job.start_at or AT) - at).total_seconds() + (of_partition if job.limit_s is None else job.limit_s)
                for job in here
            ]

            def amount(chosen: list[bool], here: list[Any] = here) -> tuple[float, float]:
                of = [job for job, is_in in zip(here, chosen, strict=True) if is_in]
                return sum(job.cpus for job in of if job.cpus == job.cpus), sum(sum(job.gpus.values()) for job in of)

            assert each.running == amount([True] * len(here))
            assert each.unlimited == amount([end == inf for end in ends])
            for free, within_s in zip(each.comes_free, HORIZONS_S, strict=True):
                assert free == (at + timedelta(seconds=within_s), *amount([end <= within_s for end in ends]))
    monkeypatch.setattr(module, "MOST_PARTITIONS_COMING_FREE", 1)
    largest = max(answer.values(), key=lambda each: each.running.cores)
    assert [each.running.cores for each in largest_partitions(answer.values())] == [largest.running.cores]


@pytest.mark.django_db
def test_the_page_says_what_the_answer_has_and_a_lead_reads_the_own_group_alone(
    listed: Site,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = (
        queue_job("1", "running", cpus=8.0, gpus={"a100": 2.0}, start_at=AT, limit_s=1_800.0),
        queue_job("2", "running", cpus=100.0, start_at=AT - timedelta(hours=1), limit_s=14_400.0),
        queue_job("3", "running", cpus=4.0, start_at=AT, limit_s=None, partition="long"),
        queue_job("4", "running", "carol", "biology", cpus=500.0, start_at=AT, limit_s=60.0),
        queue_job("5", "waiting", cpus=7.0),
    )
    state = QueueState(AT, jobs, has_running=True, partitions=PARTITIONS)
    monkeypatch.setattr(listed_jobs, "load_queue_state", lambda scheduler: state)
    (batch, long) = level_now(listed)["coming_free"]
    assert (batch["scheduler"], batch["partition"], batch["running"]) == ("c1", "batch", {"cores": 608, "gpus": 2})
    assert [(free["by"], free["cores"], free["gpus"]) for free in batch["comes_free"]] == [
        ("2026-11-20T13:00:00Z", 508, 2),
        ("2026-11-20T16:00:00Z", 608, 2),
        ("2026-11-21T12:00:00Z", 608, 2),
    ]
    assert (long["partition"], long["unlimited"]) == ("long", {"cores": 4, "gpus": 0})
    page = read(sign_in(Client(), listed.admin).get("/policy/grid/now/"))
    assert page.text("[data-testid=free-sentence]").replace("\u00a0", " ") == (
        "By the time limits of running jobs, 508 cores and 2 GPUs come free within 1 h, "
        "and 608 cores and 2 GPUs within 24 h."
    )
    rows = [[text_of(cell) for cell in row.css("th, td")] for row in page.all("[data-testid=free]")]
    assert rows == [
        ["batch", "608, 2 GPUs", "508, 2 GPUs", "608, 2 GPUs", "608, 2 GPUs", "–"],
        ["long", "4", "–", "–", "–", "4"],
    ]
    assert "4 cores of jobs without a time limit" in page.text("[data-testid=unlimited]").replace("\u00a0", " ")
    monkeypatch.setattr(now_rows, "MOST_PARTITIONS_COMING_FREE", 2)
    page = read(sign_in(Client(), listed.admin).get("/policy/grid/now/"))
    assert page.text("[data-testid=free-sentence]").startswith("In the 2 largest partitions, 508"), "not all are summed"
    (own, _long) = level_now(listed, listed.pia)["coming_free"]
    assert [free["cores"] for free in own["comes_free"]] == [8, 108, 108], "the 500 of biology aren't hers to see"
