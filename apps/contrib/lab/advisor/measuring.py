"""Collect the evidence about one policy: its tree now, past days of it, and its own jobs replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import load_account_index
from apps.accounts.actor import SYSTEM
from apps.contrib.lab.advisor.advise import advise
from apps.contrib.lab.advisor.records import Evidence, Sample
from apps.contrib.lab.advisor.replay import MOST_DAYS, MOST_JOBS, Jobs
from apps.contrib.lab.advisor.replayed_settings import Replays
from apps.contrib.lab.advisor.tree_facts import operator_facts, resolution_facts
from apps.contrib.lab.operators.figure_numbers import CANDIDATES, compared_operators, settings_with
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.aequus import operator_of
from apps.policies.models import Policy
from apps.priorities.metering import weighted_resources
from apps.priorities.recompute.totals import simulate_totals
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.sentences.numbers import unit_of_metric
from apps.priorities.serving import store
from apps.series.back_test import past_priorities
from apps.series.back_test_runs import current_state, days_until
from apps.series.daily_series import Day
from apps.series.inputs import head_mapping
from apps.usage.held_hours import OF_CURRENT
from apps.usage.parsers.base import FINISHED
from apps.usage.pgbinary import fetch_columns

F8 = npt.NDArray[np.float64]
DAYS = 28  # of which ranks are compared
_MOST_LEAF_DAYS = 600_000  # fewer days of larger trees
_FEWEST_SAMPLED = 3
_US = 1_000_000

_COUNT = f"""
SELECT array_agg(n) FROM (SELECT count(*) AS n FROM usage_record
    WHERE submit_at >= %s AND submit_at < %s AND state = {FINISHED} AND NOT is_charge{OF_CURRENT}) AS counted
"""  # noqa: S608 - constants only
_SELECT = f"""
SELECT array_agg(account_id), array_agg(submit_at), array_agg(start_at), array_agg(end_at), array_agg(cpus),
    array_agg(COALESCE(requested_s, -1)), array_agg(gpus), array_agg(nodes), array_agg(mem_mb), array_agg(billing)
FROM usage_record
WHERE submit_at >= %s AND submit_at < %s AND state = {FINISHED} AND NOT is_charge AND id %% %s = 0{OF_CURRENT}
"""  # noqa: S608 - constants only


def measure_policy(
    policy: Policy, *, at: datetime, done: Callable[[int, str], object] = lambda n, what: None
) -> Evidence:
    """Measure everything; takes seconds to minutes. done: called with finished steps.

    Raises Invalid where the settings can't be computed any more.
    """
    store.poll()  # workers serve no requests, and know no newer snapshot without it
    view = open_view(policy_slug=policy.slug, actor=SYSTEM)
    settings = view.settings
    jobs, typical_h, one_in = _load_jobs(view, at)
    evidence = Evidence(settings.algorithm, settings.window, _sample(view, jobs, typical_h, one_in))
    if view.snapshot is not None and settings.algorithm.get("name") == "aequus":
        evidence = _with_tree(evidence, view, at, typical_h)
        done(1, "tree")
    replays = Replays(view.tree.engine_tree(), jobs, settings.to_json(), done=lambda n: done(1 + n, "replay"))
    whole = replays.whole
    if whole is None:
        return evidence
    sample = replace(
        evidence.sample,
        n_jobs=len(whole.jobs),
        n_replay_days=jobs.n_days,
        n_training_days=replays.split.n_training,
        n_held_back_days=replays.split.n_held_back,
        n_replays=replays.n_replays,
        n_entries=len(np.unique(whole.jobs.entry)),
        n_left_out=whole.n_left_out,
        cpus=whole.cpus,
    )
    evidence = replace(evidence, sample=sample, half_lives=replays.half_lives(), algorithms=replays.algorithms())
    advice = advise(evidence)
    if advice.is_change:
        evidence = replace(evidence, combined=replays.combined(advice.algorithm, advice.half_life_s))
    return evidence


def _sample(view: PolicyView, jobs: Jobs, typical_h: float | None, one_in: int) -> Sample:
    is_ranked = view.tree.engine_tree().is_ranked
    return Sample(
        as_of=None if view.as_of is None else view.as_of.astimezone(UTC).isoformat(),
        n_leaves=int(is_ranked.sum()),
        n_days=0,
        n_jobs=0,
        one_in=one_in,
        n_replay_days=0,
        n_training_days=0,
        n_held_back_days=0,
        n_replays=0,
        n_entries=0,
        n_left_out=0,
        cpus=0,
        typical_job_h=typical_h,
        unit=unit_of_metric(view.settings.metric["weights"]),
    )


def _with_tree(evidence: Evidence, view: PolicyView, at: datetime, typical_h: float | None) -> Evidence:
    """Operators and resolutions, now and on past days."""
    if view.snapshot is None:
        return evidence
    settings = dict(view.settings.algorithm)
    present = simulate_totals(view.snapshot.totals, view.tree, algorithm=settings)
    days = _past_results(view, at)
    job_usage = None if typical_h is None else typical_h * 3600.0
    own = operator_of(settings)
    operators = [settings if each is own else settings_with(settings, each) for each in compared_operators(own)]
    resolutions = {*CANDIDATES, 2**20, int(settings["resolution"])}
    return replace(
        evidence,
        sample=replace(evidence.sample, n_days=len(days)),
        operators=tuple(operator_facts(present, days, each, job_usage=job_usage) for each in operators),
        resolutions=resolution_facts(present, days, settings, sorted(resolutions), job_usage=job_usage),
    )


def _past_results(view: PolicyView, at: datetime) -> list[PriorityResult]:
    """Priorities at the ends of past days, with the current tree and settings, oldest first."""
    days = days_until(view.policy, at, DAYS)
    n_leaves = max(int(view.tree.engine_tree().is_ranked.sum()), 1)
    n_sampled = min(len(days), max(_FEWEST_SAMPLED, _MOST_LEAF_DAYS // n_leaves))
    if not n_sampled:
        return []
    wanted = set(np.linspace(0, len(days) - 1, n_sampled).round().astype(int).tolist())
    results = past_priorities(view.policy, current_state(view.policy), days)
    return [result for number, result in enumerate(results) if number in wanted]


def _load_jobs(view: PolicyView, at: datetime) -> tuple[Jobs, float | None, int]:
    """(finished jobs of the last days by entry, hours of the median one in the metric, of how many one was read)."""
    days = days_until(view.policy, at, MOST_DAYS)
    if not days:
        return Jobs.none(), None, 1
    span = [datetime.fromtimestamp(days[0].from_s, UTC), datetime.fromtimestamp(days[-1].to_s, UTC)]
    n = int(fetch_columns(_COUNT, span)[0][0])
    one_in = max(1, -(-n // MOST_JOBS))
    columns = fetch_columns(_SELECT, [*span, one_in])
    if not columns:
        return Jobs.none(), None, one_in
    account, submit, start, end, cpus, requested, gpus, nodes, mem, billing = columns
    index = load_account_index(use_cache=False)
    entry_of = head_mapping(view.policy, index.keys).entry
    place = np.searchsorted(index.ids, account)
    entry = entry_of[np.minimum(place, len(entry_of) - 1)]
    run_s = (end - start) / _US
    usable = (entry > 0) & (run_s > 0)
    rates = {"cpu_s": cpus, "gpu_s": gpus, "mem_gb_s": mem / 1024.0, "node_s": nodes, "billing": billing}
    weights: dict[str, Any] = view.settings.metric["weights"]
    amount = sum(weights[name] * rates[name] for name in weighted_resources(view.settings.metric)) * run_s
    amount = amount[usable & (amount > 0)]
    typical_h = float(np.median(amount)) / 3600.0 if len(amount) else None
    order = np.flatnonzero(usable)
    order = order[np.lexsort((account[order], submit[order]))]
    first_s = _first_day_s(days, submit[order] / _US)
    jobs = Jobs(
        submit_s=submit[order] / _US - first_s,
        run_s=run_s[order].astype(np.float64),
        requested_s=np.where(requested[order] > 0, requested[order], -1.0).astype(np.float64),
        cpus=np.maximum(np.rint(cpus[order]), 1).astype(np.int64),
        entry=entry[order].astype(np.int64),
        n_days=sum(day.from_s >= first_s for day in days),
    )
    return jobs, typical_h, one_in


def _first_day_s(days: Sequence[Day], submit_s: F8) -> int:
    """Begin of the first of these days with a job; of the first one without jobs."""
    first_s = float(submit_s[0]) if len(submit_s) else 0.0
    return next((day.from_s for day in days if day.to_s > first_s), days[0].from_s)
