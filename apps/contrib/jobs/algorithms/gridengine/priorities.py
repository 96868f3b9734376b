"""Compute the result of a case: every job's priority by its terms, the order of the queue, and notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.contrib.jobs.algorithms.base import plain
from apps.contrib.jobs.algorithms.gridengine.case import HIGHEST_POSIX, Case, Job, State
from apps.contrib.jobs.algorithms.gridengine.config import Config
from apps.contrib.jobs.algorithms.gridengine.line import Amount, total_of
from apps.contrib.jobs.algorithms.gridengine.tickets import TicketResult, Tickets, distribute_tickets

_MOST_LISTED_NAMES = 6  # names in a sentence
SLOTS = "slots"
TOO_NARROW = 0.00001  # a narrower range distinguishes no jobs

COLUMNS = (
    "prior",
    "nurg",
    "npprior",
    "ntckts",
    "urg",
    "rrcontr",
    "wtcontr",
    "dlcontr",
    "tckts",
    "otckt",
    "ftckt",
    "stckt",
    "share",
)
_WHY_NOTHING = {
    "held": "held: no policy looks at it, so that every number is 0 until it is released",
    "suspended": "suspended: no policy looks at it, so that every number is 0 until it goes on",
}


def about_all(case: Case, dealt: TicketResult) -> dict[str, Any]:
    """Sums of tickets by state if any job takes part, jobs beyond a limit, and notes."""
    summary: dict[str, Any] = {}
    if dealt.of:
        summary["totals"] = {"running": _totals(case, dealt, "running"), "pending": _totals(case, dealt, "pending")}
    if dealt.beyond:
        summary["beyond_limit"] = {
            "setting": "max_functional_jobs_to_schedule",
            "limit": case.config.max_functional_jobs,
            "n_jobs": len(dealt.beyond),
            "jobs": [job.id for job in dealt.beyond],
        }
    sentences = [*_of_users(case), *_of_limit(case, dealt)]
    return {**summary, "notes": sentences} if sentences else summary


def _totals(case: Case, dealt: TicketResult, state: State) -> dict[str, float]:
    """Tickets of all jobs in this state, by policy; pending jobs may have more in total than the policy has."""
    rows = [dealt.of[job] for job in case.in_state(state)]
    return {
        "tckts": math.fsum(row.total.value for row in rows),
        "otckt": math.fsum(row.override.value for row in rows),
        "ftckt": math.fsum(row.functional.value for row in rows),
        "stckt": math.fsum(row.share_tree.value for row in rows),
    }


def _of_users(case: Case) -> list[str]:
    config = case.config
    sentences = []
    is_given = config.auto_user_fshare > 0 or config.auto_user_oticket > 0
    registered = [name for name in case.registered if is_given or name in case.deleted]
    if registered:
        tickets = f" and {plain(config.auto_user_oticket)} override tickets" if config.auto_user_oticket > 0 else ""
        sentences.append(
            f"{_counted(len(registered), 'user')} without an entry registered automatically, with "
            f"{plain(config.auto_user_fshare)} functional shares{tickets} (auto_user_fshare): {_listed(registered)}."
        )
    if case.deleted:
        sentences.append(
            f"{_counted(len(case.deleted), 'automatic user')} deleted with shares, tickets and usage after "
            f"{plain(config.auto_user_delete_time_s)} s without jobs (auto_user_delete_time): {_listed(case.deleted)}."
        )
    return sentences


def _of_limit(case: Case, dealt: TicketResult) -> list[str]:
    if not dealt.beyond:
        return []
    limit, n_beyond = case.config.max_functional_jobs, len(dealt.beyond)
    get = "get none" if limit == 0 else "get what the next job of the same owners would get"
    return [
        f"max_functional_jobs_to_schedule is {limit}: of {limit + n_beyond} pending jobs with functional shares "
        f"{n_beyond} are beyond it and {get}: {_listed([job.id for job in dealt.beyond])}."
    ]


def _counted(n: int, what: str) -> str:
    return f"1 {what} is" if n == 1 else f"{n} {what}s are"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED_NAMES
    return ", ".join(names[:_MOST_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Urgency:
    """The three contributions and their sum."""

    resources: Amount
    waiting: Amount
    deadline: Amount

    @property
    def total(self) -> Amount:
        parts = (self.resources, self.waiting, self.deadline)
        value = parts[0].value + parts[1].value + parts[2].value
        names = zip(parts, ("resources", "waiting", "deadline"), strict=True)
        return Amount(value, " + ".join(f"{plain(part.value)} ({name})" for part, name in names))


def find_urgency(job: Job, config: Config) -> Urgency:
    """rrcontr + wtcontr + dlcontr of one job, running or pending."""
    return Urgency(_of_resources(job, config), _of_waiting(job, config), _of_deadline(job, config))


def _of_resources(job: Job, config: Config) -> Amount:
    """slots·urgency(slots) + value·urgency·slots of each hard request; the urgency of text counts once."""
    parts = []
    if of_slots := config.urgency.get(SLOTS, 0.0):
        parts.append(Amount(job.slots * of_slots, f"{job.slots} × {plain(of_slots)} (slots)"))
    for request in job.requests:
        weight = config.urgency.get(request.name, 0.0)
        if not weight:
            continue
        if request.is_per_slot:
            text = f"{plain(request.value)} × {plain(weight)} × {job.slots} ({request.name}, in every slot)"
            parts.append(Amount(request.value * weight * job.slots, text))
        else:
            parts.append(Amount(weight, f"{plain(weight)} ({request.name} as text, once)"))
    return total_of(parts, "nothing requested has an urgency")


def _of_waiting(job: Job, config: Config) -> Amount:
    weight = config.weight_waiting_time
    return Amount(weight * job.waited_s, f"{plain(weight)} × {plain(job.waited_s)} (seconds since submission)")


def _of_deadline(job: Job, config: Config) -> Amount:
    """weight_deadline divided by the seconds left, at least one."""
    if job.deadline_in_s is None:
        return Amount(0.0, "0 (no deadline)")
    left_s = max(job.deadline_in_s, 1.0)
    return Amount(
        config.weight_deadline / left_s, f"{plain(config.weight_deadline)} / {plain(left_s)} (seconds to the deadline)"
    )


@dataclass(frozen=True)
class Scale:
    """Maps `low`..`high` to 0..1; to `undecided`, with a reason, if the range is narrower than `narrow`.

    Running jobs may be clipped to 0..1.
    """

    low: float
    high: float
    undecided: float
    clamps_running: bool
    narrow: float = TOO_NARROW
    why_undecided: str = "all equal"

    def normalise(self, value: float, *, is_running: bool = False) -> Amount:
        """(v − low)/(high − low)."""
        if self.high - self.low < self.narrow:
            return Amount(self.undecided, f"{plain(self.undecided)} ({self.why_undecided})")
        exact = (value - self.low) / (self.high - self.low)
        if is_running and self.clamps_running and not 0 <= exact <= 1:
            kept = min(max(exact, 0.0), 1.0)
            return Amount(kept, f"{plain(kept)} (beyond the range of pending jobs, so kept within it)")
        if self.low == 0:
            return Amount(exact, f"{plain(value)} / {plain(self.high)} (the largest)")
        low = plain(self.low)
        span = f"({plain(value)} − {low}) / ({plain(self.high)} − {low})"
        return Amount(exact, f"{span.replace('− -', '+ ')} (from the smallest to the largest)")


@dataclass(frozen=True)
class Rules:
    """Changes to scales by the amendments of a case."""

    amendments: frozenset[str]

    @property
    def excludes_running(self) -> bool:
        return "exclude_running" in self.amendments

    @property
    def undecided(self) -> float:
        return 0.0 if "default_zero" in self.amendments else 0.5

    def urgency_scale(self, pending: Iterable[float], running: Iterable[float]) -> Scale:
        """From the smallest to the largest urgency; with the linear amendment from 0, and 0 if none is positive."""
        seen = [*pending, *(() if self.excludes_running else running)]
        low, high = min(seen, default=0.0), max(seen, default=0.0)
        if "linear_urgency" in self.amendments:
            why = "no job has a positive urgency"
            return Scale(0.0, max(high, 0.0), 0.0, self.excludes_running, narrow=math.ulp(0.0), why_undecided=why)
        return Scale(low, high, self.undecided, self.excludes_running)

    def ticket_scale(self, pending: Iterable[float], running: Iterable[float]) -> Scale:
        """From 0 to the most tickets of any job in either pass."""
        high = max([*pending, *(() if self.excludes_running else running)], default=0.0)
        return Scale(0.0, high, self.undecided, self.excludes_running)

    def posix(self, priority: int) -> Amount:
        """(p + 1024)/2048; with `default_zero` p/1024."""
        if "default_zero" in self.amendments:
            return Amount(priority / HIGHEST_POSIX, f"{priority} / {HIGHEST_POSIX}")
        both = 2 * HIGHEST_POSIX
        return Amount((priority + HIGHEST_POSIX) / both, f"({priority} + {HIGHEST_POSIX}) / {both}")


def answer(case: Case) -> dict[str, Any]:
    """The result as JSON: jobs in the order of their numbers, then the order of the queue."""
    urgency = {job: find_urgency(job, case.config) for job in case.jobs if job.state in ("pending", "running")}
    dealt = distribute_tickets(case)
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
    """Pending jobs by priority, then age; held jobs last."""
    waiting = [job for job in rows if job.state in ("pending", "held")]
    return sorted(waiting, key=lambda job: (job.state == "held", -rows[job]["prior"], job.age_key))


def _share(tickets: float, all_tickets: float, state: str) -> Amount:
    if tickets <= 0:
        return Amount(0.0, "0 (no tickets)")
    return Amount(tickets / all_tickets, f"{plain(tickets)} / {plain(all_tickets)} (tickets of all {state} jobs)")


class _Normalised:
    """The three normalised numbers, and the job's part of all tickets, which is shown only."""

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
    """The columns of one job and the lines that explain them, from the same amounts."""
    amounts = {
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
    row: dict[str, Any] = {column: amounts[column][1].value for column in COLUMNS}
    row["explain"] = [amount.line(label) for label, amount in amounts.values()]
    return row
