"""Experiments: a million of the site's own jobs under four variants, as many on 170 sites, and a sweep on two workers.

Processor seconds are those of this process and of PostgreSQL.
"""

from __future__ import annotations

import io
import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench import workers
from bench.report import BenchLine

N_JOBS, N_DAYS, N_GROUPS, N_USERS = 1_000_000, 90, 100, 1_000
LOAD = 0.93
GOAL_S, GOAL_MB = 60.0, 1_024.0
N_SITES = 170
SWEEP_JOBS = 200_000
SLUG = "lab"


def measure_large() -> list[BenchLine]:
    at = _build()
    lines = [*_replay(at), _many_sites()]
    return [*lines, *workers.gain("a sweep of four variants", sweep, "series", rounds=1, warming=1)]


def _build() -> datetime:
    """The policy and its records; returns the instant after them."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.runs.services import work_run_now
    from apps.usage.services import NewImport, start_import

    to_at = now().replace(hour=0, minute=0, second=0, microsecond=0)
    from_at = to_at - timedelta(days=N_DAYS)
    make_groups(from_at - timedelta(days=1))
    log = _log(int(from_at.timestamp()))
    new = NewImport(source_slug=SLUG, format="swf", file=io.BytesIO(log), file_name="log.swf", makes_source=True)
    run = work_run_now(start_import(new, at=to_at, actor=COMMAND).run_id)
    assert run.state == "succeeded", run.error
    return to_at + timedelta(hours=1)


def make_groups(at: datetime) -> None:
    """The policy, with a rule for all its users."""
    from apps.accounts.actor import COMMAND
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree

    groups: list[dict[str, Any]] = [
        {
            "name": str(group),
            "shares": 1 + group % 7,
            "children": [
                {"name": str(user), "kind": "user", "shares": 1 + user % 3}
                for user in range(1, N_USERS + 1)
                if _group_of(user) == group
            ],
        }
        for group in range(1, N_GROUPS + 1)
    ]
    make_policy(slug=SLUG, name=SLUG, at=at, actor=COMMAND)
    document = {"policy": SLUG, "root": {"name": SLUG, "children": groups}}
    publish_document(policy_slug=SLUG, document=document, reason="bench", at=at, actor=COMMAND)
    rule = Rule("glob", load_tree(Policy.objects.get(slug=SLUG)).uuid(0), suffix="/{group}/{user}")
    set_rules(policy_slug=SLUG, rules=[rule], at=at, actor=COMMAND)


def _group_of(user: int) -> int:
    return user % N_GROUPS + 1


def _jobs(n: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """(submission, run time, processors, user): a few users send most of the jobs, of up to 32 processors."""
    random = np.random.default_rng(seed)
    submit = np.sort(random.integers(0, N_DAYS * 86_400, n))
    run = random.lognormal(8.0, 1.2, n).astype(np.int64).clip(60, 5 * 86_400)
    cpus = 2 ** random.integers(0, 6, n)
    user = (random.zipf(1.3, n) - 1) % N_USERS + 1
    return submit, run, cpus, user


def _log(start_s: int) -> bytes:
    """In Standard Workload Format. Waits are those of a queue in the order of submission with as many processors as
    LOAD leaves busy.
    """
    submit, run, cpus, user = _jobs(N_JOBS, 1)
    wait = _waits(submit, run, cpus, int((run * cpus).sum() / (N_DAYS * 86_400) / LOAD))
    lines = [
        f"{n} {s} {w} {r} {c} -1 -1 {c} {2 * r} -1 1 {u} {_group_of(u)} -1 1 -1 -1 -1"
        for n, s, w, r, c, u in zip(range(1, N_JOBS + 1), submit, wait, run, cpus, user, strict=True)
        if s + w + r < N_DAYS * 86_400
    ]
    return (f"; UnixStartTime: {start_s}\n" + "\n".join(lines) + "\n").encode()


def _waits(submit: Any, run: Any, cpus: Any, capacity: int) -> list[int]:
    """Of a queue in which each job starts when those before it have started and its processors are free."""
    from heapq import heappop, heappush

    running: list[tuple[int, int]] = []
    free, now, waits = capacity, 0, []
    for at, length, width in zip(submit.tolist(), run.tolist(), cpus.tolist(), strict=True):
        now = max(now, at)
        while running and running[0][0] <= now:
            free += heappop(running)[1]
        while free < width:
            now, freed = heappop(running)
            free += freed
        heappush(running, (now + length, width))
        free -= width
        waits.append(now - at)
    return waits


def _replay(at: datetime) -> list[BenchLine]:
    """Preparation and each variant in this process, in processor seconds with those of PostgreSQL."""
    from apps.accounts.actor import COMMAND
    from apps.contrib.lab.experiments.selectors import get_experiment
    from apps.contrib.lab.experiments.services import create_experiment
    from apps.runs.memory import return_freed_memory
    from apps.runs.services import work_run_now

    variants: list[dict[str, Any]] = [
        {"settings": {"window": {"half_life_s": 14 * 86_400}}},
        {"settings": {"algorithm": {"operator": "absolute"}}},
        {"entries": [{"entry": "/7", "shares_times": 2}]},
    ]
    spec = {"workload": {"kind": "replay", "days": N_DAYS}, "variants": variants}
    experiment = create_experiment(policy_slug=SLUG, name="bench", spec=spec, at=at, actor=COMMAND)
    _simulate_small()
    pids = [os.getpid()]
    return_freed_memory()  # of the log and its import
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    began, parts = workers._cpu_s(pids), []
    assert experiment.preparing_id is not None
    for run_id in [experiment.preparing_id, None, None, None, None]:
        before = workers._cpu_s(pids)
        if run_id is None:
            run_id = experiment.variants.filter(run__state="queued").order_by("index").values_list("run", flat=True)[0]
        done = work_run_now(run_id)
        assert done.state == "succeeded", done.error
        parts.append(workers._cpu_s(pids) - before)
    took_s = workers._cpu_s(pids) - began
    detail = get_experiment(policy_slug=SLUG, experiment_id=experiment.pk, at=at, actor=COMMAND)
    base = detail.variants[0].headline
    assert base is not None
    named = ", ".join(f"{part:.1f}" for part in parts)
    text = f"{took_s:.1f} s of processors with PostgreSQL's: {named}; {base.n_jobs:,} jobs, {base.busy:.0%} busy"
    text += f"; the estimate was {detail.estimate.seconds:.0f} s and {detail.estimate.memory_mb:,.0f} MB"
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak_mb = int(status["VmHWM"].split()[0]) / 1024
    return [
        BenchLine(f"{N_DAYS} days, {N_JOBS:,} records, four variants / {GOAL_S:g} s", took_s / GOAL_S, 1.0, text),
        BenchLine(f"peak memory of their runs / {GOAL_MB:,.0f} MB", peak_mb / GOAL_MB, 1.0, f"{peak_mb:,.0f} MB"),
    ]


def _simulate_small() -> None:
    """Read from disk, or compile, what machine code there is."""
    from apps.contrib.lab.experiments.simulate_variant import simulate_variant

    simulate_variant(_drawn(6_000, 2), 0, lambda part: None)


def _drawn(n_jobs: int, n_sites: int, n_variants: int = 1) -> Any:
    """Inputs of an experiment with drawn jobs of all users of the policy, at LOAD."""
    from apps.contrib.lab.experiments.prepare import prepare
    from apps.contrib.lab.experiments.spec import read_spec
    from apps.contrib.lab.experiments.variant_trees import with_uids
    from apps.policies.models import Policy
    from apps.policies.tree.stored import load_tree

    policy = Policy.objects.get(slug=SLUG)
    spec = with_uids(read_spec(_spec_of(n_jobs, n_sites, n_variants)), load_tree(policy))
    return prepare(policy, policy.head_number, spec).inputs


def _spec_of(n_jobs: int, n_sites: int, n_variants: int = 1) -> dict[str, Any]:
    hours = 24.0 * N_DAYS
    cpus = max(1, round(n_jobs / hours / LOAD / n_sites))  # jobs of an hour
    half_lives = [{"settings": {"window": {"half_life_s": 86_400 * (2 + n)}}} for n in range(n_variants - 1)]
    return {
        "workload": {
            "kind": "synthetic",
            "hours": hours,
            "sites": [{"name": f"s{number}", "cpus": cpus} for number in range(n_sites)],
            "all_users": {"load": n_jobs / (hours * cpus * n_sites), "run_h": [0.5, 1.5]},
        },
        "base": {"scope": "global"},
        "variants": half_lives,
    }


def _many_sites() -> BenchLine:
    from apps.contrib.lab.experiments.simulate_variant import simulate_variant

    inputs = _drawn(N_JOBS, N_SITES)
    began = time.process_time()
    digests = [simulate_variant(inputs, 0, lambda part: None).pack()[1] for _each in range(2)]
    took_s = time.process_time() - began
    assert digests[0] == digests[1]
    text = f"{took_s:.1f} s of processor time, equal bytes"
    return BenchLine(f"{N_JOBS:,} jobs on {N_SITES} sites, twice / {GOAL_S:g} s", took_s / GOAL_S, 1.0, text)


def sweep(number: int) -> list[int]:
    """Runs of four variants whose inputs are prepared."""
    from apps.accounts.actor import COMMAND
    from apps.contrib.lab.experiments.services import create_experiment
    from apps.core.clock import now
    from apps.runs.services import work_run_now

    spec = _spec_of(SWEEP_JOBS, 4, 4)
    experiment = create_experiment(policy_slug=SLUG, name=f"sweep {number}", spec=spec, at=now(), actor=COMMAND)
    assert experiment.preparing_id is not None
    assert work_run_now(experiment.preparing_id).state == "succeeded"
    return [int(run) for run in experiment.variants.order_by("index").values_list("run_id", flat=True)]
