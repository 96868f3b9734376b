"""Prometheus metrics of schedulers and their agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import Metric

from apps.contrib.schedulers.models import LimitListing, Scheduler, ShareListing
from apps.contrib.schedulers.selectors import difference_of, views_of
from apps.core import clock
from apps.core.derived_state import in_memory
from apps.pages.monitoring.gauges import gauge
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree

DERIVED_STATE = (
    in_memory(
        "_counted",
        holds="number of shares changed by hand",
        key="digests of listing, tree and subtree",
        inputs="shares that the agent listed, the tree",
        range="one scheduler",
        ends="another key",
    ),
)

_JOBS = ("pending", "unmapped", "sent", "failed")


def scheduler_families() -> Iterator[Metric]:
    """Metrics of each scheduler's last pass and shares. Without a pass, there are no samples of age and jobs."""
    age = gauge("fairshare_agent_last_pass_seconds", "Seconds since the agent's last pass", "scheduler")
    jobs = gauge("fairshare_agent_jobs", "Jobs in the agent's last pass, by outcome", "scheduler", "outcome")
    frozen = gauge("fairshare_agent_frozen", "1: the agent sends nothing because a limit is exceeded", "scheduler")
    silent = gauge("fairshare_agent_silent", "1: the agent is overdue by three intervals", "scheduler")
    schedulers = Scheduler.objects.filter(policy__in=Policy.objects.all()).select_related("policy")
    for view in views_of(schedulers, clock.now()):
        label = [view.scheduler.name]
        silent.add_metric(label, float(view.is_silent))
        if view.last is None or view.age_s is None:
            continue
        age.add_metric(label, view.age_s)
        frozen.add_metric(label, float(bool(view.last.frozen_code)))
        for outcome in _JOBS:
            jobs.add_metric([*label, outcome], getattr(view.last, outcome))
    yield from (age, jobs, frozen, silent, _shares_changed_by_hand(list(schedulers)), _limited_accounts())


def _limited_accounts() -> Metric:
    """Number of accounts in each state of limits, of schedulers that carry limits."""
    words = "Accounts of a scheduler by the state of their limit, such as set, lapsed or denied"
    limited = gauge("fairshare_agent_limits", words, "scheduler", "state")
    listings = LimitListing.objects.filter(scheduler__carries=Scheduler.Carries.LIMITS).select_related("scheduler")
    for listing in listings:
        for code, n in sorted(Counter(each["code"] for each in listing.accounts).items()):
            limited.add_metric([listing.scheduler.name, code], n)
    return limited


_counted: dict[
    int, tuple[tuple[Any, ...], int]
] = {}  # by scheduler: digests of the compared data, and the number of changes by hand


def _shares_changed_by_hand(schedulers: Sequence[Scheduler]) -> Metric:
    """Number of shares changed by hand in each scheduler; no sample before the agent has listed shares."""
    words = "Shares changed by hand in a scheduler that gets its shares from a policy"
    changed = gauge("fairshare_agent_shares_changed_by_hand", words, "scheduler")
    for scheduler in schedulers:
        if scheduler.carries == Scheduler.Carries.SHARES and scheduler.mode != Scheduler.Mode.OFF:
            n = _count_by_hand(scheduler)
            if n is not None:
                changed.add_metric([scheduler.name], n)
    return changed


def _count_by_hand(scheduler: Scheduler) -> int | None:
    """Cached until listing, tree or subtree change, because the comparison is too slow for every scrape."""
    listing = ShareListing.objects.filter(scheduler=scheduler).values_list("cluster", "digest").first()
    if listing is None:
        return None
    compared = (*listing, scheduler.kind, scheduler.subtree_uid, load_tree(scheduler.policy).digest)
    known = _counted.get(scheduler.pk)
    if known is None or known[0] != compared:
        difference = difference_of(scheduler)
        known = _counted[scheduler.pk] = (compared, len(difference.by_hand) if difference is not None else 0)
    return known[1]
