"""Collect the evidence about one policy: its tree now, past days of it, and its own jobs replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import load_account_index
from apps.accounts.actor import SYSTEM
from apps.contrib.lab.advisor.advise import advise
from apps.contrib.lab.advisor.records import Evidence, Sample
from apps.contrib.lab.advisor.replay import MOST_DAYS, MOST_JOBS, Jobs
from apps.contrib.lab.advisor.replayed_settings import Replays
from apps.contrib.lab.advisor.tree_facts import operator_facts, resolution_facts
from apps.contrib.lab.experiments.inputs import WAS_RUNNING
from apps.contrib.lab.experiments.prepare import entries_of_accounts
from apps.contrib.lab.experiments.replay_records import count_submitted, load_recorded_jobs, replayed_jobs
from apps.contrib.lab.operators.figure_numbers import CANDIDATES, compared_operators, settings_with
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.aequus import operator_of
from apps.policies.models import Policy
from apps.priorities.recompute.totals import simulate_totals
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.sentences.numbers import unit_of_metric
from apps.priorities.serving import store
from apps.series.back_test import past_priorities
from apps.series.back_test_runs import current_state, days_until
from apps.series.daily_series import Day
from apps.series.inputs import head_mapping

I8 = npt.NDArray[np.int64]
DAYS = 28  # of which ranks are compared
_MOST_LEAF_DAYS = 600_000  # fewer days of larger trees
_FEWEST_SAMPLED = 3


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
    """(jobs of the last days by entry, hours of the median one in the metric, of how many one was read)."""
    days = days_until(view.policy, at, MOST_DAYS)
    if not days:
        return Jobs.none(), None, 1
    from_at, to_at = days[0].from_at, days[-1].to_at
    one_in = max(1, -(-count_submitted(from_at, to_at) // MOST_JOBS))
    recorded = load_recorded_jobs(from_at, to_at, one_in=one_in)
    accounts = load_account_index(use_cache=False)
    entry = head_mapping(view.policy, accounts.keys).entry.astype(np.int64)

    def entry_of(ids: I8) -> I8:
        return entries_of_accounts(accounts, entry, ids)

    replayed = replayed_jobs(recorded, from_at, to_at, is_mapped=lambda ids: entry_of(ids) > 0, cpus={})
    stored = replayed.jobs
    if not len(stored):
        return Jobs.none(), None, one_in
    amount = recorded.rates(view.settings.metric)[replayed.rows] * stored.run_s
    amount = amount[(stored.marks & WAS_RUNNING == 0) & (amount > 0)]
    typical_h = float(np.median(amount)) / 3600.0 if len(amount) else None
    first_s = _first_day_s(days, float(stored.at_s.min()) + days[0].from_s)
    jobs = Jobs(
        submit_s=stored.at_s + (days[0].from_s - first_s),
        run_s=stored.run_s,
        requested_s=stored.requested_s,
        cpus=stored.cpus,
        entry=entry_of(replayed.account_ids)[stored.who],
        n_days=sum(day.from_s >= first_s for day in days),
    )
    return jobs, typical_h, one_in


def _first_day_s(days: Sequence[Day], first_s: float) -> int:
    """Begin of the day with this instant, of the first job."""
    return next((day.from_s for day in days if day.to_s > first_s), days[0].from_s)
