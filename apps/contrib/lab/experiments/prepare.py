"""Read what an experiment needs from the database, once, so that its simulations need nothing but this."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import numpy as np
from django.utils.translation import gettext as _

from apps.accounts.account_index import load_account_index
from apps.contrib.lab.experiments.account_entries import entries_in, entries_of_accounts
from apps.contrib.lab.experiments.estimate import no_jobs, no_submit_times
from apps.contrib.lab.experiments.inputs import NO_PAST, NO_SUBMIT_TIME, GivenJobs, Inputs, PastUsage, VariantInputs
from apps.contrib.lab.experiments.past_usage import UsageBefore, load_usage_before, reach_days, summed
from apps.contrib.lab.experiments.replay_records import (
    ReplayedJobs,
    load_recorded_jobs,
    own_sources,
    replayed_jobs,
)
from apps.contrib.lab.experiments.spec import (
    MOST_WORKLOAD_HOURS,
    ExperimentSpec,
    ReplayWorkload,
    Site,
    SyntheticWorkload,
    TraceRule,
    TraceWorkload,
)
from apps.contrib.lab.experiments.traces import TraceJobs, refuse_unread
from apps.contrib.lab.experiments.variant_trees import (
    Problems,
    VariantTree,
    chosen_leaves,
    collected,
    entries_of_uids,
    load_variant_trees,
    place_of,
    refuse_without_shares,
)
from apps.contrib.lab.models import UploadedTrace
from apps.contrib.lab.simulated_tree import I8, simulated_part
from apps.core.blobs import CorruptBlob
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.core.postgresql import consistent_read
from apps.policies.models import Policy
from apps.series.days import Day, days_of, site_zone

MOST_USERS = 2_000  # leaves with jobs, of a workload that has all users
Done = Callable[[], object]
Trees = Sequence[VariantTree | None]
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Prepared:
    """left_out: (number of jobs, core-hours) by reason, in the order in which it was decided. problems: why a variant
    isn't in the inputs, by its index.
    """

    inputs: Inputs
    left_out: Mapping[str, tuple[int, float]]
    problems: Problems


def prepare(
    policy: Policy, revision: int, spec: ExperimentSpec, *, is_strict: bool = False, done: Done = lambda: None
) -> Prepared:
    """Raises Invalid and Conflict for what can't be simulated; of a variant only if `is_strict`, else it is left out.

    done: is called between two steps of a second or so.
    """
    problems: Problems | None = None if is_strict else {}
    trees = load_variant_trees(policy, revision, spec, problems)
    workload = spec.workload
    if isinstance(workload, SyntheticWorkload):
        return Prepared(_prepare_drawn(spec, workload, trees, problems), {}, problems or {})
    if isinstance(workload, ReplayWorkload):
        return _prepare_replay(policy, spec, workload, trees, problems, done=done)
    return _prepare_trace(policy, spec, workload, trees, problems)


def _prepare_trace(
    policy: Policy, spec: ExperimentSpec, workload: TraceWorkload, trees: Trees, problems: Problems | None
) -> Prepared:
    """The inputs of an uploaded log. Each user and group of it is mapped by the rules, in the tree of each variant."""
    log = _log_of(policy, workload)
    base = _base_of(trees)
    entry_of_who = [None if tree is None else _mapped(log, workload.map, tree) for tree in trees]
    mapped = _mapped(log, workload.map, base)[log.who] >= 0
    widest = max(site.cpus for site in workload.sites)
    hours = workload.hours or float(min(MOST_WORKLOAD_HOURS, np.floor(log.at_s[-1] / 3600.0) + 1.0))
    kept = log.at_s < hours * 3600.0
    left_out = {}
    for reason, applies in (("unmapped", ~mapped), ("too_wide", log.cpus > widest)):
        dropped = kept & applies
        kept &= ~applies
        if dropped.any():
            left_out[reason] = (int(dropped.sum()), float((log.run_s * log.cpus)[dropped].sum()) / 3600.0)
    if not kept.any():
        message = _("No job of the log has an entry by these rules, and a site that is wide enough.")
        raise Invalid(message, code="no_jobs", fields=[FieldProblem("workload.map", message)])
    rows = np.flatnonzero(kept)
    jobs = GivenJobs(
        at_s=log.at_s[rows],
        before_s=np.zeros(len(rows)),
        run_s=log.run_s[rows],
        requested_s=log.requested_s[rows],
        cpus=log.cpus[rows],
        site=np.full(len(rows), -1, dtype=np.int64),
        who=log.who[rows],
        rate=log.cpus[rows].astype(np.float64),
        marks=np.zeros(len(rows), dtype=np.uint8),
        waited_s=np.full(len(rows), np.nan),
    )

    def of(index: int, tree: VariantTree) -> VariantInputs:
        entries = entry_of_who[index]
        if entries is None:
            raise ValueError("A variant with a tree has entries.")
        refuse_without_shares(tree.whole, entries, place_of(index))
        return _variant_inputs(tree, entries, NO_PAST)

    variants = _each(trees, problems, of)
    inputs = Inputs(spec, hours, workload.sites, variants, jobs=jobs, day_ends_s=_day_ends_s(hours))
    return Prepared(inputs, left_out, problems or {})


def _log_of(policy: Policy, workload: TraceWorkload) -> TraceJobs:
    trace = UploadedTrace.objects.filter(policy=policy, pk=workload.trace).select_related("run").first()
    if trace is None:
        message = _("names no log of this policy: upload it first")
        raise Invalid(f"workload.trace {message}.", code="no_trace", fields=[FieldProblem("workload.trace", message)])
    refuse_unread(trace)
    try:
        return TraceJobs.unpack(bytes(trace.data), trace.digest)
    except CorruptBlob:
        raise Conflict(_("The stored log is damaged: remove it, and upload it again."), code="damaged") from None


def _mapped(log: TraceJobs, rules: Sequence[TraceRule], tree: VariantTree) -> I8:
    """The entry of each user and group by the first rule that fits, −1 for none."""
    pairs = zip(map(str, log.users.tolist()), map(str, log.groups.tolist()), strict=True)
    return np.array([_entry_of(user, group, rules, tree) for user, group in pairs], dtype=np.int64)


def _entry_of(user: str, group: str, rules: Sequence[TraceRule], tree: VariantTree) -> int:
    for rule in rules:
        if rule.user in (None, user) and rule.group in (None, group):
            i = tree.columns.index_of_path(rule.entry.replace("{user}", user).replace("{group}", group))
            return -1 if not i or tree.columns.is_reserve[i] else i
    return -1


def _base_of(trees: Trees) -> VariantTree:
    if trees[0] is None:
        raise ValueError("The base is never left out.")
    return trees[0]


def _prepare_drawn(
    spec: ExperimentSpec, workload: SyntheticWorkload, trees: Trees, problems: Problems | None
) -> Inputs:
    """The inputs of drawn jobs."""
    base = _base_of(trees)
    if workload.all_users is None:
        uids = [stream.entry for stream in workload.streams]
    else:
        uids = [str(base.columns.uuid(i)) for i in chosen_leaves(base.whole, MOST_USERS).tolist()]

    def of(index: int, tree: VariantTree) -> VariantInputs:
        entries = entries_of_uids(tree.columns, uids)
        refuse_without_shares(tree.whole, entries, place_of(index))
        return _variant_inputs(tree, entries, NO_PAST)

    variants = _each(trees, problems, of)
    return Inputs(spec, workload.hours, workload.sites, variants, day_ends_s=_day_ends_s(workload.hours))


def _each(
    trees: Trees, problems: Problems | None, make: Callable[[int, VariantTree], VariantInputs]
) -> list[VariantInputs | None]:
    """The inputs of each variant that has a tree, and isn't refused."""

    def of(index: int, tree: VariantTree | None) -> VariantInputs | None:
        return None if tree is None else collected(problems, index, lambda: make(index, tree))

    return [of(index, tree) for index, tree in enumerate(trees)]


def _variant_inputs(tree: VariantTree, entry_of_who: I8, past: PastUsage) -> VariantInputs:
    """The part of a tree that takes part. past: of entries of the whole tree."""
    takes_part, has_usage = np.zeros(len(tree.whole), dtype=np.bool_), np.zeros(len(tree.whole), dtype=np.bool_)
    takes_part[entry_of_who[entry_of_who >= 0]] = True
    has_usage[past.entry] = True
    part, place, place_of_usage = simulated_part(tree.whole, takes_part, has_usage)
    past = summed(place_of_usage[past.entry], past.site, past.hour, past.amount)
    return VariantInputs(part, np.where(entry_of_who >= 0, place[entry_of_who], -1), past, tree.settings)


def _day_ends_s(hours: float) -> tuple[float, ...]:
    """Ends of days of 24 hours from the start, the last one shorter, in seconds."""
    whole = np.arange(24.0, hours, 24.0).tolist()
    return tuple(3600.0 * each for each in [*whole, hours])


def days_of_replay(workload: ReplayWorkload) -> list[Day]:
    if workload.until_on is None:
        raise ValueError("The last day of a replay is set when it is made.")
    zone = site_zone()
    return days_of(workload.until_on - timedelta(days=workload.days - 1), workload.until_on, zone)


def _prepare_replay(
    policy: Policy,
    spec: ExperimentSpec,
    workload: ReplayWorkload,
    trees: Trees,
    problems: Problems | None,
    *,
    done: Done,
) -> Prepared:
    """Records are read week by week, each as it is then: a job that is reported meanwhile may be in or out."""
    days = days_of_replay(workload)
    from_at, to_at = days[0].from_at, days[-1].to_at
    with consistent_read() as is_settled:
        accounts = load_account_index(use_cache=is_settled)
        entries = [None if tree is None else entries_in(policy, tree.columns, accounts) for tree in trees]
    base, base_entry = _base_of(trees), entries[0]
    if base_entry is None:
        raise ValueError("The base is never left out.")
    done()
    recorded = load_recorded_jobs(from_at, to_at, done=done)
    replayed = replayed_jobs(
        recorded,
        from_at,
        to_at,
        entry_of=lambda ids: entries_of_accounts(accounts, base_entry, ids),
        cpus=workload.cpus,
    )
    _refuse_unsuitable(replayed)
    rates = _Once(lambda metric: replayed.rates(recorded, json.loads(metric)))
    before = _Once(lambda metric: _usage_before(from_at, json.loads(metric), trees, replayed.sites, done))

    def of(index: int, tree: VariantTree) -> VariantInputs:
        entry = entries[index]
        if entry is None:
            raise ValueError("A variant with a tree has entries.")
        entry_of_who = entries_of_accounts(accounts, entry, replayed.account_ids)
        refuse_without_shares(tree.whole, entry_of_who, place_of(index))
        metric = json.dumps(tree.settings["metric"], sort_keys=True)
        variant = _variant_inputs(tree, entry_of_who, before(metric).of_entries(accounts.ids, entry))
        done()
        return replace(variant, rate=rates(metric)) if tree.settings["metric"] != base.settings["metric"] else variant

    jobs = replace(replayed.jobs, rate=rates(json.dumps(base.settings["metric"], sort_keys=True)))
    inputs = Inputs(
        spec,
        (days[-1].to_s - days[0].from_s) / 3600.0,
        replayed.sites,
        _each(trees, problems, of),
        jobs=jobs,
        origin_s=float(days[0].from_s),
        day_ends_s=tuple(float(day.to_s - days[0].from_s) for day in days),
        first_day=days[0].on.isoformat(),
        cpus_by_day=replayed.cpus_by_day,
    )
    return Prepared(inputs, replayed.left_out, problems or {})


class _Once(Generic[Value]):
    """Values by metric, each computed once: most variants have the metric of the base."""

    def __init__(self, compute: Callable[[str], Value]) -> None:
        self._compute, self._known = compute, dict[str, Value]()

    def __call__(self, metric: str) -> Value:
        if metric not in self._known:
            self._known[metric] = self._compute(metric)
        return self._known[metric]


def _usage_before(
    from_at: datetime, metric: Mapping[str, object], trees: Trees, sites: Sequence[Site], done: Done
) -> UsageBefore:
    return load_usage_before(
        from_at,
        n_days=reach_days([tree.settings["window"] for tree in trees if tree is not None]),
        metric=metric,
        sources=own_sources(),
        sites=[site.name for site in sites],
        done=done,
    )


def _refuse_unsuitable(replayed: ReplayedJobs) -> None:
    jobs = replayed.jobs
    if not len(jobs):
        raise no_jobs()
    if not (jobs.marks & NO_SUBMIT_TIME == 0).any():
        raise no_submit_times()
