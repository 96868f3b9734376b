"""From a read case to the answer: every job's priority with the lines it adds up from, and the order of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.engine.jobs.fields import plain
from apps.engine.jobs.gridengine.amounts import Amount
from apps.engine.jobs.gridengine.inputs.case import Case, Job
from apps.engine.jobs.gridengine.inputs.config import Config
from apps.engine.jobs.gridengine.normalise import Rules
from apps.engine.jobs.gridengine.notes import about_all
from apps.engine.jobs.gridengine.tickets import Tickets, deal
from apps.engine.jobs.gridengine.urgency import Urgency, find_urgency

COLUMNS = (
    "prior", "nurg", "npprior", "ntckts", "urg", "rrcontr", "wtcontr", "dlcontr", "tckts", "otckt", "ftckt", "stckt",
    "share",
)  # fmt: skip
_WHY_NOTHING = {
    "held": "held: no policy looks at it, so that every number is 0 until it is released",
    "suspended": "suspended: no policy looks at it, so that every number is 0 until it goes on",
}


def answer(case: Case) -> dict[str, Any]:
    """The result as the contract has it: jobs in the order of their numbers, then the order of the queue."""
    urgency = {job: find_urgency(job, case.config) for job in case.jobs if job.state in ("pending", "running")}
    dealt = deal(case)
    rules = Rules(case.config.amendments)
    of_pending = [urgency[job].total.value for job in case.in_state("pending")]
    urgency_scale = rules.urgency_scale(
        [*of_pending, *case.hidden_urgencies], (urgency[job].total.value for job in case.in_state("running"))
    )
    ticket_scale = rules.ticket_scale(
        (dealt.of[job].total.value for job in case.in_state("pending")), dealt.running_peaks
    )
    all_tickets = {
        state: sum(dealt.of[job].total.value for job in case.jobs if job.state == state)
        for state in ("pending", "running")
    }
    rows: dict[Job, dict[str, Any]] = {}
    for job in case.jobs:
        if job not in urgency:
            rows[job] = {**dict.fromkeys(COLUMNS, 0.0), "explain": [_WHY_NOTHING[job.state]]}
            continue
        is_running = job.state == "running"
        nurg = urgency_scale.normalise(urgency[job].total.value, is_running=is_running)
        ntckts = ticket_scale.normalise(dealt.of[job].total.value, is_running=is_running)
        share = _share(dealt.of[job].total.value, all_tickets[job.state], job.state)
        normalised = _Normalised(nurg, ntckts, rules.posix(job.posix_priority), share)
        rows[job] = _row(case.config, urgency[job], dealt.of[job], normalised)
    return {
        "id": case.id,
        "jobs": {job.id: row for job, row in rows.items()},
        "pending_order": [job.id for job in _in_order(rows)],
        **about_all(case, dealt),
    }


def _in_order(rows: Mapping[Job, Mapping[str, Any]]) -> list[Job]:
    """Everything that waits, by priority, then age; held jobs last."""
    waiting = [job for job in rows if job.state in ("pending", "held")]
    return sorted(waiting, key=lambda job: (job.state == "held", -rows[job]["prior"], job.age_key))


def _share(tickets: float, all_tickets: float, state: str) -> Amount:
    if tickets <= 0:
        return Amount(0.0, "0 (no tickets)")
    return Amount(tickets / all_tickets, f"{plain(tickets)} / {plain(all_tickets)} (tickets of all {state} jobs)")


class _Normalised:
    """The three weighted numbers, and the job's part of the tickets, which is only shown."""

    def __init__(self, nurg: Amount, ntckts: Amount, npprior: Amount, share: Amount) -> None:
        self.nurg, self.ntckts, self.npprior, self.share = nurg, ntckts, npprior, share

    def prior(self, config: Config) -> Amount:
        """weight_urgency·nurg + weight_ticket·ntckts + weight_priority·npprior."""
        parts = (
            (config.weight_urgency, self.nurg.value, "urgency"),
            (config.weight_ticket, self.ntckts.value, "tickets"),
            (config.weight_priority, self.npprior.value, "POSIX priority"),
        )
        value = parts[0][0] * parts[0][1] + parts[1][0] * parts[1][1] + parts[2][0] * parts[2][1]
        return Amount(value, " + ".join(f"{plain(weight)} × {plain(part)} ({name})" for weight, part, name in parts))


def _row(config: Config, urgency: Urgency, tickets: Tickets, normalised: _Normalised) -> dict[str, Any]:
    """The columns of one job and, from the same amounts, the lines that explain them."""
    told = {
        "prior": ("priority", normalised.prior(config)),
        "nurg": ("normalised urgency", normalised.nurg),
        "ntckts": ("normalised tickets", normalised.ntckts),
        "npprior": ("normalised POSIX priority", normalised.npprior),
        "urg": ("urgency", urgency.total),
        "rrcontr": ("resources", urgency.resources),
        "wtcontr": ("waiting", urgency.waiting),
        "dlcontr": ("deadline", urgency.deadline),
        "tckts": ("tickets", tickets.total),
        "otckt": ("override tickets", tickets.override),
        "ftckt": ("functional tickets", tickets.functional),
        "stckt": ("share-tree tickets", tickets.share_tree),
        "share": ("share of tickets", normalised.share),
    }
    row: dict[str, Any] = {column: told[column][1].value for column in COLUMNS}
    row["explain"] = [amount.line(label) for label, amount in told.values()]
    return row
