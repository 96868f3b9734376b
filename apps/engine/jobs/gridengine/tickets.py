"""Tickets of all jobs: running and pending ones together, then the running ones alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.engine.jobs.base import plain
from apps.engine.jobs.gridengine import functional, override, sharetree
from apps.engine.jobs.gridengine.case import Case, Job
from apps.engine.jobs.gridengine.functional import Functional
from apps.engine.jobs.gridengine.line import Amount
from apps.engine.jobs.gridengine.sharetree import ShareTree

Amounts = Mapping[Job, Amount]


@dataclass(frozen=True)
class Tickets:
    """What one job has of each policy."""

    override: Amount
    functional: Amount
    share_tree: Amount

    @property
    def total(self) -> Amount:
        parts = {"override": self.override, "functional": self.functional, "share tree": self.share_tree}
        value = self.share_tree.value + self.functional.value + self.override.value  # the scheduler's order
        return Amount(value, " + ".join(f"{plain(part.value)} ({name})" for name, part in parts.items()))


@dataclass(frozen=True)
class Dealt:
    """Final tickets of every pending and running job, and the most that any running job had in either pass.

    beyond: pending jobs that `max_functional_jobs_to_schedule` left out of the functional policy, by number.
    """

    of: Mapping[Job, Tickets]
    running_peaks: tuple[float, ...]
    beyond: tuple[Job, ...] = ()


def deal(case: Case) -> Dealt:
    """Both passes: pending jobs keep what the first gives them, running jobs what the second does."""
    running, pending = case.in_state("running"), case.in_state("pending")
    tree = sharetree.plant(case, [*running, *pending])
    by_override = override.share_running(running, is_shared=case.config.share_override_tickets)
    by_function = _functional_of_running(case, running)
    passes = [
        {job: Tickets(by_override[job], by_function[job], by_tree[job]) for job in running}
        for by_tree in (_tree_of_running(tree, running, pending), _tree_of_running(tree, running, []))
    ]
    peaks = tuple(tickets.total.value for found in passes for tickets in found.values())
    of_pending, beyond = _deal_to_pending(case, tree, running, pending)
    return Dealt({**passes[1], **of_pending}, peaks, beyond)


def _functional_of_running(case: Case, running: Sequence[Job]) -> Amounts:
    if case.config.functional_tickets <= 0:
        return dict.fromkeys(running, _NO_FUNCTIONAL)
    return functional.share_running(running, case.config)


def _tree_of_running(tree: ShareTree | None, running: Sequence[Job], pending: Sequence[Job]) -> Amounts:
    if tree is None:
        return dict.fromkeys(running, _NO_TREE)
    populated = tree.populated([*running, *pending])
    return sharetree.share_running(tree, running, sharetree.find_targets(tree, populated), populated)


_NO_FUNCTIONAL = Amount(0.0, "0 (functional tickets are switched off)")
_NO_TREE = Amount(0.0, "0 (no share tree, or its tickets are switched off)")


def _deal_to_pending(
    case: Case, tree: ShareTree | None, running: Sequence[Job], pending: Sequence[Job]
) -> tuple[dict[Job, Tickets], tuple[Job, ...]]:
    """Policy after policy; those in the hierarchy see the tickets of those before them and pass theirs on.

    Also the jobs beyond the limit of the functional policy.
    """
    earlier = dict.fromkeys(pending, 0.0)
    dealt: dict[str, Amounts] = {}
    beyond: tuple[Job, ...] = ()
    for policy, is_linked in case.config.policies:
        before = earlier if is_linked else None
        if policy == "O":
            is_shared = case.config.share_override_tickets
            dealt[policy] = override.share_pending(running, pending, before, is_shared=is_shared)
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
