"""Position of an own account among the others, and the waits of its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from statistics import median
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.accounts.actor import Actor
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import FieldProblem, Invalid
from apps.engine.algorithms.inputs import prepare
from apps.engine.codecs import factor_from_key
from apps.explain.path import walk_to
from apps.pages.my_priority.numbers.rank_history import MOST_RANK_DAYS, OwnEntry, get_own_entry
from apps.pages.my_priority.numbers.records import N_BINS, Bin, MyPosition, MyWaits, PooledWaits, WaitDay
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import numbers_visible_in
from apps.series.days import site_zone
from apps.series.stored_series import load_series
from apps.usage.models import Record

MOST_POSITION_JOBS = 50_000  # the newest ones
F8 = npt.NDArray[np.float64]


def get_my_waits(*, policy_slug: str, entry_uid: UUID, n_days: int, actor: Actor, at: datetime) -> MyWaits:
    """Return the waits of jobs by the actor's accounts that are mapped to this entry; NotFound if there is none."""
    if not 1 <= n_days <= MOST_RANK_DAYS:
        message = f"must be 1 to {MOST_RANK_DAYS} days"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    own_entry = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    visible = numbers_visible_in(policy=own_entry.policy, snapshot=own_entry.snapshot, at=at, actor=actor)
    # The level that decides the rank if the actor may see it, else the entry itself.
    walk = walk_to(own_entry.snapshot, own_entry.entry)
    deciding = own_entry.entry if walk.deciding is None else walk.chain[walk.deciding]
    level = deciding if visible[deciding] else own_entry.entry
    since = own_entry.snapshot.as_of - timedelta(days=n_days)
    deviations, reported = _past_deviations(own_entry, level, since)
    jobs, n_left_out = _job_waits(own_entry, actor, since, reported)
    by_day: dict[date, list[float]] = defaultdict(list)
    for started_on, waited_s in jobs:
        by_day[started_on].append(waited_s)
    days = tuple(
        WaitDay(on, len(waits), median(waits), max(waits), deviations.get(on)) for on, waits in sorted(by_day.items())
    )
    tree = own_entry.snapshot.tree
    return MyWaits(
        policy_slug=own_entry.policy.slug,
        policy_name=own_entry.policy.name,
        account=own_entry.account,
        level_name=tree.name[level],
        parent_name=tree.name[max(int(tree.parent[level]), 0)],
        revision=own_entry.snapshot.revision,
        days=days,
        knows_waits=bool(jobs) or not n_left_out,
        n_left_out=n_left_out,
        over=_pool_waits([day for day in days if (day.deviation or 0) > 0], by_day),
        under=_pool_waits([day for day in days if (day.deviation or 0) < 0], by_day),
    )


def _job_waits(
    own_entry: OwnEntry, actor: Actor, since: datetime, reported: AbstractSet[date]
) -> tuple[list[tuple[date, float]], int]:
    """List (start day, seconds waited) of each job, and count jobs left out because their wait is unknown.

    A source without submit times reports each job as submitted when it started. If none of a source's jobs waited, its
    jobs count only on `reported` days, when every source is known to report submit times.
    """
    rows = Record.objects.filter(
        account_id__in=_account_ids(own_entry.snapshot, own_entry.entry, actor),
        start_at__gt=since,
        start_at__lte=own_entry.snapshot.as_of,
        is_charge=False,
        source__archived_at=None,
    ).exclude(state="withdrawn")
    newest = rows.order_by("-start_at").values_list("source_id", "start_at", "submit_at")[:MOST_POSITION_JOBS]
    job_times = [(source, start_at, submit_at) for source, start_at, submit_at in newest if start_at is not None]
    waiting = {source for source, start_at, submit_at in job_times if start_at > submit_at}
    zone, jobs = site_zone(), []
    for source, start_at, submit_at in job_times:
        on = start_at.astimezone(zone).date()
        if source in waiting or on in reported:
            jobs.append((on, (start_at - submit_at).total_seconds()))
    return jobs, len(job_times) - len(jobs)


def _account_ids(snapshot: ServedSnapshot, entry: int, actor: Actor) -> list[int]:
    """List the actor's own accounts mapped to the entry; none for a token restricted to a subtree, as for charges."""
    if actor.user is None or actor.top_uid is not None:
        return []
    return [
        account.pk
        for account in list_accounts_of(actor.user)
        if entry
        in snapshot.index.find_certain(
            AccountQuery(
                account.user_name, account.group_name, account.namespace, account.dn, account.fqan, account.project
            )
        )
    ]


def _past_deviations(own_entry: OwnEntry, level: int, since: datetime) -> tuple[dict[date, float], set[date]]:
    """Return the deviation by day, as of the end of the day before, and the days on which all sources reported submit
    times.
    """
    uid, zone = own_entry.snapshot.tree.uuid(level), site_zone()
    series = load_series(
        own_entry.policy,
        [uid],
        from_on=since.astimezone(zone).date() - timedelta(days=1),
        to_on=own_entry.snapshot.as_of.astimezone(zone).date(),
    )
    deviations, reported = {}, set()
    for day, on in enumerate(series.days.on):
        whole = float(series.peers_decayed[0][day])
        if series.competes[0][day] and whole > 0:
            deviations[on + timedelta(days=1)] = float(series.decayed[0][day]) / whole - float(series.target[0][day])
        if series.knows_waiting[0][day]:
            reported.add(on)
    return deviations, reported


def _pool_waits(days: Sequence[WaitDay], by_day: dict[date, list[float]]) -> PooledWaits | None:
    waits = [waited_s for day in days for waited_s in by_day[day.on]]
    return PooledWaits(len(days), len(waits), median(waits)) if waits else None


def get_my_position(*, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime) -> MyPosition:
    """Return the position of the actor's account that is mapped to this entry; NotFound if there is none."""
    own_entry = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    snapshot, entry = own_entry.snapshot, own_entry.entry
    values = snapshot.values
    ranked = values.has_rank & values.is_ranked
    has_rank = bool(ranked[entry])
    factor = factors_with_distance(snapshot)
    rank = int(values.rank[entry]) if has_rank else None
    own = float(factor[entry]) if has_rank else None
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    return MyPosition(
        policy_slug=own_entry.policy.slug,
        policy_name=own_entry.policy.name,
        account=own_entry.account,
        as_of=snapshot.as_of,
        revision=snapshot.revision,
        rank=rank,
        of=int(ranked.sum()),
        n_same=int((values.rank[ranked] == rank).sum()) - 1 if has_rank else 0,
        factor=own,
        smallest=smallest,
        bins=() if own is None else bin_factors(factor[ranked], own, smallest=smallest),
    )


def factors_with_distance(snapshot: ServedSnapshot) -> F8:
    """Return factors 0..1 whose differences are meaningful.

    With factors derived from ranks all neighbours are equally far apart, so the vectors' keys are used instead.
    """
    algorithm, values = snapshot.algorithm, snapshot.values
    if algorithm["name"] != "aequus" or algorithm.get("factor_from") != "rank":
        return values.factor
    prepared = prepare(snapshot.tree.engine_tree())
    scalar = (values.scalar if prepared.is_whole else values.scalar[prepared.entry]).astype(np.int64)
    factors = factor_from_key(prepared.contest, scalar, prepared.depth, int(algorithm["resolution"]))
    return prepared.spread(factors)


def bin_factors(factors: F8, own: float, *, smallest: int) -> tuple[Bin, ...]:
    """Count factors in twentieths of 0..1, merging neighbours until each bin has at least `smallest` others or none.

    factors: of all ranked leaves, including one's own (`own`). Empty if all others would be in one bin.
    """
    bin_index = np.clip((factors * N_BINS + 1e-9).astype(np.int64), 0, N_BINS - 1)
    others = np.bincount(bin_index, minlength=N_BINS)
    own_bin = min(max(int(own * N_BINS + 1e-9), 0), N_BINS - 1)
    others[own_bin] -= 1
    if others.sum() < smallest:
        return ()
    bins = tuple(
        Bin(
            first / N_BINS,
            end / N_BINS,
            int(others[first:end].sum()) + (first <= own_bin < end),
            first <= own_bin < end,
        )
        for first, end in _merged_bins(others.tolist(), smallest)
    )
    return bins if sum(factor_bin.n > factor_bin.is_mine for factor_bin in bins) > 1 else ()


def _merged_bins(others: Sequence[int], smallest: int) -> list[tuple[int, int]]:
    """Merge consecutive bins until each is empty or has enough others; a small remainder joins the last
    non-empty one.
    """
    runs: list[tuple[int, int]] = []
    first, n = 0, 0
    for at, n_others in enumerate(others):
        n += n_others
        if n >= smallest or n == 0:
            runs.append((first, at + 1))
            first, n = at + 1, 0
    if n:
        while runs and not sum(others[runs[-1][0] : runs[-1][1]]):
            first = runs.pop()[0]
        first = runs.pop()[0]
        runs.append((first, len(others)))
    return runs
