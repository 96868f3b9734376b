"""Override tickets: those of the user, the project, the department and the job itself, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from apps.engine.jobs.base import plain
from apps.engine.jobs.gridengine.case import Job
from apps.engine.jobs.gridengine.line import Amount, Line, total_of
from apps.engine.jobs.gridengine.owners import KINDS, Owner


def _amount(job: Job, divisor: Mapping[Owner, int], note: str = "") -> Amount:
    """divisor: by how many jobs each owner's tickets are divided; the job's own never are."""
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


def share_running(running: Sequence[Job], *, is_shared: bool) -> dict[Job, Amount]:
    """Owners' tickets, divided by their running jobs where they are shared."""
    active = _active_jobs(running) if is_shared else Counter()
    return {job: _amount(job, active) for job in running}


def share_pending(
    running: Sequence[Job], pending: Sequence[Job], earlier: Mapping[Job, float] | None, *, is_shared: bool
) -> dict[Job, Amount]:
    """Owners' tickets; where they are shared, divided by the jobs active so far, the job with most activated next.

    earlier: tickets of policies before this one where it is in the hierarchy; they break ties, then the job number.
    """
    if not is_shared:
        return {job: _amount(job, {}) for job in pending}
    amounts = {job: _amount(job, {}) for job in pending}
    # Whose owners have none neither takes from the others nor gets less for them.
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
        amounts[job] = _amount(job, line.active, note=", jobs before it counted")
    return amounts
