"""A draft's back-test: 90 days of a policy of 100,000 entries under other shares, as its run computes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bench.clock import timed
from bench.report import BenchLine
from bench.series import AT, SLUG, build

N_ENTRIES, N_RECORDS, N_DAYS = 100_000, 500_000, 90
GOAL_S = 10.0


def measure_large() -> BenchLine:
    from apps.policies.models import Policy
    from apps.series.back_test import back_test
    from apps.series.back_test_runs import current_state
    from apps.series.days import days_of, last_complete_day, site_zone

    policy = Policy.objects.filter(slug=SLUG).first() or build(N_ENTRIES, N_RECORDS)[0]
    current, zone = current_state(policy), site_zone()
    tree = current.tree
    shares = tree.shares.copy()
    shares[tree.children(0).start] *= 2
    draft = replace(current, number=0, tree=replace(tree, shares=shares, digest=""))
    last_on = last_complete_day(AT, zone)
    days = days_of(last_on - timedelta(days=N_DAYS - 1), last_on, zone)
    result, took_s = timed(lambda: back_test(policy, current, draft, days))
    if not len(result.daily) or not (result.n_days > 0).any():
        raise RuntimeError("The back-test has no days with targets that differ.")
    return BenchLine(
        f"back-test of {N_DAYS} days, {len(tree):,} entries / {GOAL_S:g} s", took_s / GOAL_S, 1.0, f"{took_s:.1f} s"
    )
