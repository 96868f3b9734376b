"""Tickets of all jobs: a pass over running and pending jobs, then one over running jobs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apps.contrib.jobs.algorithms.base import plain
from apps.contrib.jobs.algorithms.gridengine import functional, sharetree
from apps.contrib.jobs.algorithms.gridengine.case import Case, Job
from apps.contrib.jobs.algorithms.gridengine.functional import Functional
from apps.contrib.jobs.algorithms.gridengine.line import Amount, Line, total_of
from apps.contrib.jobs.algorithms.gridengine.owners import KINDS, Owner
from apps.contrib.jobs.algorithms.gridengine.sharetree import ShareTree

Amounts = Mapping[Job, Amount]
_NO_FUNCTIONAL = Amount(0.0, "0 (functional tickets are switched off)")
_NO_TREE = Amount(0.0, "0 (no share tree, or its tickets are switched off)")


@dataclass(frozen=True)
class Tickets:
    """One job's tickets by policy."""

    override: Amount
    functional: Amount
    share_tree: Amount

    @property
    def total(self) -> Amount:
        parts = {"override": self.override, "functional": self.functional, "share tree": self.share_tree}
        value = self.share_tree.value + self.functional.value + self.override.value  # the scheduler's order
        return Amount(value, " + ".join(f"{plain(part.value)} ({name})" for name, part in parts.items()))


@dataclass(frozen=True)
class TicketResult:
    """Final tickets of every pending and running job, and the most that any running job had in either pass.

    beyond: numbers of pending jobs that `max_functional_jobs_to_schedule` excluded from the functional policy.
    """

    of: Mapping[Job, Tickets]
    running_peaks: tuple[float, ...]
    beyond: tuple[Job, ...] = ()


def distribute_tickets(case: Case) -> TicketResult:
    """Run both passes: pending jobs keep tickets of the first, running jobs those of the second."""
    running, pending = case.in_state("running"), case.in_state("pending")
    tree = sharetree.build_share_tree(case, [*running, *pending])
    by_override = _override_of_running(running, is_shared=case.config.share_override_tickets)
    by_function = _functional_of_running(case, running)
    passes = [
        {job: Tickets(by_override[job], by_function[job], by_tree[job]) for job in running}
        for by_tree in (_tree_of_running(tree, running, pending), _tree_of_running(tree, running, []))
    ]
    peaks = tuple(tickets.total.value for by_job in passes for tickets in by_job.values())
    of_pending, beyond = _distribute_to_pending(case, tree, running, pending)
    return TicketResult({**passes[1], **of_pending}, peaks, beyond)


def _functional_of_running(case: Case, running: Sequence[Job]) -> Amounts:
    if case.config.functional_tickets <= 0:
        return dict.fromkeys(running, _NO_FUNCTIONAL)
    return functional.share_running(running, case.config)


def _tree_of_running(tree: ShareTree | None, running: Sequence[Job], pending: Sequence[Job]) -> Amounts:
    if tree is None:
        return dict.fromkeys(running, _NO_TREE)
    populated = tree.populated([*running, *pending])
    return sharetree.share_running(tree, running, sharetree.find_targets(tree, populated), populated)


def _distribute_to_pending(
    case: Case, tree: ShareTree | None, running: Sequence[Job], pending: Sequence[Job]
) -> tuple[dict[Job, Tickets], tuple[Job, ...]]:
    """Compute policy after policy; those in the hierarchy use the tickets of earlier ones and pass theirs on.

    Also returns the jobs beyond the limit of the functional policy.
    """
    earlier = dict.fromkeys(pending, 0.0)
    dealt: dict[str, Amounts] = {}
    beyond: tuple[Job, ...] = ()
    for policy, is_linked in case.config.policies:
        before = earlier if is_linked else None
        if policy == "O":
            is_shared = case.config.share_override_tickets
            dealt[policy] = _override_of_pending(running, pending, before, is_shared=is_shared)
        elif policy == "F":
            functional_tickets = _functional_of_pending(case, running, pending, before)
            dealt[policy], beyond = functional_tickets.of, functional_tickets.beyond
        else:
            dealt[policy] = _tree_of_pending(tree, running, pending, before)
        if is_linked:
            earlier = {job: earlier[job] + dealt[policy][job].value for job in pending}
    return {job: Tickets(dealt["O"][job], dealt["F"][job], dealt["S"][job]) for job in pending}, beyond


def _functional_of_pending(
    case: Case, running: Sequence[Job], pending: Sequence[Job], earlier: Mapping[Job, float] | None
) -> Functional:
    config = case.config
    if config.functional_tickets <= 0:
        return Functional(dict.fromkeys(pending, _NO_FUNCTIONAL))
    if "even_split" in config.amendments:
        return functional.share_pending_evenly(running, pending, config)
    return functional.share_pending(running, pending, config, earlier)


def _tree_of_pending(
    tree: ShareTree | None, running: Sequence[Job], pending: Sequence[Job], earlier: Mapping[Job, float] | None
) -> Amounts:
    if tree is None:
        return dict.fromkeys(pending, _NO_TREE)
    jobs = [*running, *pending]
    populated = tree.populated(jobs)
    return sharetree.share_pending(tree, jobs, sharetree.find_targets(tree, populated), populated, earlier)


def _override_amount(job: Job, divisor: Mapping[Owner, int], note: str = "") -> Amount:
    """Override tickets of a job; divisor: the number of jobs that owners' tickets are divided by, not the job's own."""
    parts = []
    for kind in KINDS:
        owner = job.owners.get(kind)
        if owner is not None and owner.oticket > 0:
            jobs = divisor.get(owner, 1)
            by = f" / {jobs}" if jobs > 1 else ""
            parts.append(Amount(owner.oticket / jobs, f"{plain(owner.oticket)}{by} ({kind} {owner.name}{note})"))
    if job.override_tickets > 0:
        parts.append(Amount(job.override_tickets, f"{plain(job.override_tickets)} (the job's own)"))
    return total_of(parts, "no override tickets")


def _active_jobs(running: Sequence[Job]) -> Counter[Owner]:
    return Counter(owner for job in running for owner in job.owners.values())


def _override_of_running(running: Sequence[Job], *, is_shared: bool) -> dict[Job, Amount]:
    """Owners' tickets, divided by their running jobs if they are shared."""
    active = _active_jobs(running) if is_shared else Counter()
    return {job: _override_amount(job, active) for job in running}


def _override_of_pending(
    running: Sequence[Job], pending: Sequence[Job], earlier: Mapping[Job, float] | None, *, is_shared: bool
) -> dict[Job, Amount]:
    """Owners' tickets; if shared, divided by the jobs active so far; the job with most is activated next.

    earlier: tickets of policies before this one if it is in the hierarchy; they break ties, then the job number.
    """
    if not is_shared:
        return {job: _override_amount(job, {}) for job in pending}
    amounts = {job: _override_amount(job, {}) for job in pending}
    # Jobs whose owners have none don't affect others.
    sharing = [job for job in pending if any(owner.oticket > 0 for owner in job.owners.values())]
    if not sharing:
        return amounts
    line = Line(
        sharing,
        _active_jobs(running),
        earlier,
        of_job=lambda job: job.override_tickets,
        of_owner=lambda owner: owner.oticket,
    )
    for _ in range(line.n_jobs):
        each = line.worth / line.divisor
        value = np.zeros(len(line.own))
        for kind in KINDS:
            value += each[line.rows[kind]]
        job = line.activate(line.pick(value + line.own, -line.earlier, line.number))
        amounts[job] = _override_amount(job, line.active, note=", jobs before it counted")
    return amounts
