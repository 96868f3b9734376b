"""Collect the evidence about one policy: its tree now, past days of it, and its own jobs replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from apps.accounts.actor import SYSTEM
from apps.contrib.lab.advisor.advise import advise, advised_operator
from apps.contrib.lab.advisor.own_jobs import OwnJobs, load_own_jobs
from apps.contrib.lab.advisor.records import Evidence, Sample
from apps.contrib.lab.advisor.tree_facts import operator_facts, resolution_facts
from apps.contrib.lab.comparison.replayed_settings import Replays, most_replays
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

DAYS = 28  # of which ranks are compared
_MOST_LEAF_DAYS = 600_000  # fewer days of larger trees
_FEWEST_SAMPLED = 3


def measure_policy(
    policy: Policy,
    *,
    at: datetime,
    done: Callable[[int, str], object] = lambda n, what: None,
    most: Callable[[int], object] = lambda n: None,
) -> Evidence:
    """Measure everything; takes seconds to minutes. done: called with finished steps, most: with how many there can be.

    Raises Invalid where the settings can't be computed any more.
    """
    store.poll()  # workers serve no requests, and know no newer snapshot without it
    view = open_view(policy_slug=policy.slug, actor=SYSTEM)
    settings = view.settings
    own = load_own_jobs(view, at)
    evidence = Evidence(settings.algorithm, settings.window, _sample(view, own))
    most(1 + most_replays(len(_operator_settings(settings.algorithm))))
    if view.snapshot is not None and settings.algorithm.get("name") == "aequus":
        evidence = _with_tree(evidence, view, at, own.typical_h)
        done(1, "tree")
    replays = Replays(
        view.tree.engine_tree(),
        own.jobs,
        settings.to_json(),
        own.past,
        own.origin_s,
        done=lambda n: done(1 + n, "replay"),
    )
    replayed = replays.sample(one_in=own.one_in)
    if replayed is None:
        return evidence
    evidence = replace(evidence, sample=replace(evidence.sample, **asdict(replayed)))
    if not replayed.meets_history:
        return evidence
    return with_replays(evidence, replays, _operator_settings(settings.algorithm))


def with_replays(evidence: Evidence, replays: Replays, operators: Sequence[Mapping[str, Any]]) -> Evidence:
    """Operators first; half-lives and algorithms are then tried with the advised one. operators: complete settings."""
    if operators:
        evidence = replace(evidence, tried_operators=replays.operators(operators))
    algorithm = advised_operator(evidence)
    evidence = replace(
        evidence,
        current=replays.of_settings("current", evidence.algorithm, None),
        half_lives=replays.half_lives(algorithm),
        algorithms=replays.algorithms(algorithm),
    )
    advice = advise(evidence)
    if not advice.is_change:
        return evidence
    return replace(evidence, combined=replays.of_settings("combined", advice.algorithm, advice.half_life_s))


def _operator_settings(algorithm: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Complete settings with each of the compared operators; empty for an algorithm without them."""
    if algorithm.get("name") != "aequus":
        return []
    own = operator_of(dict(algorithm))
    return [
        dict(algorithm) if each is own else settings_with(dict(algorithm), each) for each in compared_operators(own)
    ]


def _sample(view: PolicyView, own: OwnJobs) -> Sample:
    is_ranked = view.tree.engine_tree().is_ranked
    return Sample(
        as_of=None if view.as_of is None else view.as_of.astimezone(UTC).isoformat(),
        n_leaves=int(is_ranked.sum()),
        n_days=0,
        n_jobs=0,
        one_in=own.one_in,
        n_replay_days=0,
        n_training_days=0,
        n_held_back_days=0,
        n_replays=0,
        n_entries=0,
        n_left_out=0,
        n_waiting=0,
        cpus=0,
        typical_job_h=own.typical_h,
        unit=unit_of_metric(view.settings.metric["weights"]),
        n_own_jobs=len(own.jobs) * own.one_in,
        n_own_days=own.jobs.n_days,
        n_unknown=own.n_unknown,
    )


def _with_tree(evidence: Evidence, view: PolicyView, at: datetime, typical_h: float | None) -> Evidence:
    """Operators and resolutions, now and on past days."""
    if view.snapshot is None:
        return evidence
    settings = dict(view.settings.algorithm)
    present = simulate_totals(view.snapshot.totals, view.tree, algorithm=settings)
    days = _past_results(view, at)
    job_usage = None if typical_h is None else typical_h * 3600.0
    operators = _operator_settings(settings)
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
