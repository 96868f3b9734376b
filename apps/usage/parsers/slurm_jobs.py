"""Convert jobs of Slurm, given as columns, to records; shared by text, JSON and listings.

Usage is the time from start to end × allocated resources, as in Slurm's fair share: a suspended job keeps its
allocation and is charged, although Elapsed excludes that time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.core.resource_kinds import MOST_OF_KIND, Kinds, gpus_of
from apps.usage.parsers.base import (
    F8,
    FINISHED,
    FIRST_US,
    I8,
    LAST_US,
    MOST_JOB_S,
    MOST_MEM_MB,
    MOST_RATE,
    NO_TIME,
    PENDING,
    RUNNING,
    WITHDRAWN,
    AccountNames,
    Bytes,
    Flags,
    JobClassKey,
    RecordBatch,
)
from apps.usage.parsers.field_values import VALUES_IGNORED
from apps.usage.parsers.sluids import of_jobs
from apps.usage.parsers.slurm_billing import fits_recorded
from apps.usage.parsers.slurm_parts import begin_of_rows, first_starts, follow_parts
from apps.usage.parsers.slurm_states import BY_TIMES, ENDED, NEVER_RAN, PART, RUNNING_NOW, WAITING
from apps.usage.parsers.slurm_values import Problems, Times

CPUS, GPUS, MEM_MB, NODES, BILLING = range(5)  # column indices of `requested` and `allocated`
_MOST_AMOUNTS = np.array([MOST_RATE, MOST_RATE, MOST_MEM_MB, MOST_RATE, MOST_RATE])
_NEEDLESS = {GPUS: "gpus", MEM_MB: "mem_mb", NODES: "nodes", BILLING: "billing"}  # with their names in notes

_Noted = dict[str, Flags]  # what is noted of which rows; rejected ones are left out when they are counted


@dataclass(slots=True)
class Jobs:
    """Jobs as reported by Slurm, one row each. Missing amounts are NaN, missing times NO_TIME."""

    line: I8
    job: Bytes
    array_task: Bytes
    cluster: Bytes
    meaning: I8  # of the state, by slurm_states
    who: I8
    job_class: I8
    submit: Times
    eligible: Times
    start: Times
    end: Times
    elapsed_us: I8
    requested: F8  # (n, 5): CPUS, GPUS, MEM_MB, NODES, BILLING
    allocated: F8
    requested_kind: I8  # index into `kinds`
    allocated_kind: I8
    exact_billing: F8  # by TRESBillingWeights; NaN without weights for the partition
    has_no_allocation: Flags  # reported without an allocation
    requested_s: F8
    n_tasks: I8  # of a pending array
    people: list[AccountNames]
    job_classes: list[JobClassKey]
    kinds: list[Kinds]  # the first is none
    is_nameless: Flags  # the user's name is a number or nobody
    original_sluid: I8  # shared by all rows of a job, until it is requeued; 0 if it isn't reported
    row_sluid: I8
    are_live: bool  # listed by the controller, which looks names up; accounting stores those of jobs that ended


def to_records(jobs: Jobs, problems: Problems, notes: dict[str, int]) -> RecordBatch:
    """Convert rows without problems to records; problems of the others are added to `problems`."""
    noted: _Noted = {}
    given_start_us, end_us = _resolve_ambiguous_times(jobs, noted)
    state = _states(jobs, given_start_us, end_us, problems, noted)
    start_us = np.where((state == RUNNING) | (state == FINISHED), given_start_us, NO_TIME)
    end_us = np.where(state == FINISHED, end_us, NO_TIME)
    _note_elapsed(jobs, start_us, end_us, noted)
    start_us, requested_s = _begin_of_parts(jobs, start_us, end_us, noted)
    key_us = np.where(start_us != NO_TIME, start_us, given_start_us)
    submit_us = np.where(jobs.submit.first_us != NO_TIME, jobs.submit.first_us, key_us)
    _check_times(submit_us, start_us, end_us, problems)
    amounts = _amounts(jobs, state, problems, noted)
    kind, kinds = _kinds(jobs, state)
    # Also where their number is ignored, GPUs are no fewer than those of their kinds.
    amounts[:, GPUS] = np.maximum(amounts[:, GPUS], np.array([gpus_of(each) for each in kinds])[kind])
    sluid = of_jobs(jobs.original_sluid, jobs.row_sluid, jobs.meaning == PART, submit_us, given_start_us)
    good = np.setdiff1d(np.arange(len(jobs.line)), np.fromiter(problems, np.int64, len(problems)))
    n = len(good)
    for name, flags in noted.items():
        if n_noted := int(flags[good].sum()):
            notes[name] = notes.get(name, 0) + n_noted
    return RecordBatch(
        line=jobs.line[good],
        job=jobs.job[good],
        array_task=jobs.array_task[good],
        cluster=jobs.cluster[good],
        site=np.zeros(n, "S1"),
        restart=np.zeros(n, np.int64),
        revision=np.zeros(n, np.int64),
        state=state[good],
        who=jobs.who[good],
        job_class=jobs.job_class[good],
        submit_us=submit_us[good],
        start_us=start_us[good],
        end_us=end_us[good],
        cpus=amounts[good, CPUS],
        gpus=amounts[good, GPUS],
        nodes=amounts[good, NODES],
        mem_mb=amounts[good, MEM_MB],
        billing=amounts[good, BILLING],
        requested_s=np.minimum(requested_s[good], MOST_JOB_S),
        is_charge=np.zeros(n, np.bool_),
        people=jobs.people,
        job_classes=jobs.job_classes,
        is_nameless=(jobs.is_nameless & (jobs.are_live | (state <= RUNNING)))[good],
        kind=kind[good],
        kinds=kinds,
        sluid=sluid[good],
        differ_by_start=True,
    )


def _resolve_ambiguous_times(jobs: Jobs, noted: _Noted) -> tuple[I8, I8]:
    """Start and end. For an ambiguous local time, the instant that fits Elapsed is used, else the first possible
    one.
    """
    start_us, end_us = jobs.start.first_us.copy(), jobs.end.first_us.copy()
    twice = (jobs.start.second_us != start_us) | (jobs.end.second_us != end_us)
    rows = np.flatnonzero(twice & (start_us != NO_TIME) & (end_us != NO_TIME))
    if not len(rows):
        return start_us, end_us
    noted["repeated_hour"] = twice & (start_us != NO_TIME) & (end_us != NO_TIME)
    starts, ends = jobs.start.take(rows), jobs.end.take(rows)
    ways = [(starts[i], ends[j]) for i, j in ((0, 0), (0, 1), (1, 1), (1, 0))]
    elapsed_us = jobs.elapsed_us[rows]
    costs = [_misfit(start, end, elapsed_us) for start, end in ways]
    best = np.argmin(np.stack(costs), axis=0)
    start_us[rows] = np.choose(best, [start for start, _ in ways])
    end_us[rows] = np.choose(best, [end for _, end in ways])
    return start_us, end_us


def _misfit(start_us: I8, end_us: I8, elapsed_us: I8) -> F8:
    ran = (end_us - start_us).astype(np.float64)
    off = np.where(elapsed_us != NO_TIME, np.abs(ran - elapsed_us), 0.0)
    return np.where(ran < 0, np.inf, off)


def _states(jobs: Jobs, start_us: I8, end_us: I8, problems: Problems, noted: _Noted) -> I8:
    """States of records. Missing ends of ended jobs are computed from Elapsed, in place."""
    has_start, has_end, has_elapsed = start_us != NO_TIME, end_us != NO_TIME, jobs.elapsed_us != NO_TIME
    by_times = np.where(has_end, ENDED, np.where(has_start, RUNNING_NOW, WAITING))
    meaning = np.where((jobs.meaning == BY_TIMES) | (jobs.meaning == PART), by_times, jobs.meaning)
    ended = meaning == ENDED
    elapsed = np.where(has_elapsed, jobs.elapsed_us, end_us - start_us)
    never = ended & (~has_start | ((has_end | has_elapsed) & (elapsed == 0) & jobs.has_no_allocation))
    never |= meaning == NEVER_RAN
    open_end = ended & ~never & ~has_end
    end_us[open_end & has_elapsed] = (start_us + jobs.elapsed_us)[open_end & has_elapsed]
    for row in np.flatnonzero(open_end & ~has_elapsed).tolist():
        problems.setdefault(
            row, ("no_end", "It has ended, but neither End nor ElapsedRaw is given: add both to --format.")
        )
    _note(noted, "never_started", never)
    _note(noted, "end_from_elapsed", open_end & has_elapsed)
    running = (meaning == RUNNING_NOW) & has_start
    return np.where(never, WITHDRAWN, np.where(ended, FINISHED, np.where(running, RUNNING, PENDING))).astype(np.int64)


def _begin_of_parts(jobs: Jobs, start_us: I8, end_us: I8, noted: _Noted) -> tuple[I8, F8]:
    """Start of what each row itself used, as Slurm may show a resized job's first start in later parts; and the time
    that the job may run from there, since its limit counts from the first start.
    """
    eligible_us = jobs.eligible.first_us
    begin_us = begin_of_rows(jobs.submit.first_us, eligible_us, start_us, end_us)
    first_us = start_us
    is_part = (jobs.meaning == PART) & (end_us != NO_TIME)
    if is_part.any():
        keys = list(zip(jobs.cluster.tolist(), jobs.job.tolist(), jobs.array_task.tolist(), strict=True))
        begin_us = follow_parts(keys, is_part, eligible_us, begin_us, end_us)
        first_us = first_starts(keys, is_part, start_us, begin_us, end_us)
    _note(noted, "begun_at_resize", begin_us != start_us)
    used_s = np.where(begin_us != first_us, (begin_us - first_us) / 1e6, 0.0)
    return begin_us, np.maximum(jobs.requested_s - used_s, 0.0)


def _check_times(submit_us: I8, start_us: I8, end_us: I8, problems: Problems) -> None:
    known = [
        (column != NO_TIME) & ((column < FIRST_US) | (column > LAST_US)) for column in (submit_us, start_us, end_us)
    ]
    ran = np.where((start_us != NO_TIME) & (end_us != NO_TIME), end_us - start_us, 0)
    checks = (
        (submit_us == NO_TIME, "no_submit", "Neither submit nor start time is given: add Submit."),
        (known[0] | known[1] | known[2], "absurd_time", "One of its times is not between 1970 and 2200."),
        (ran < 0, "end_before_start", "It ended before it started: check the source's time zone and the line."),
        (ran > MOST_JOB_S * 1_000_000, "absurd_run_time", f"It ran for more than {MOST_JOB_S // 86400} days."),
    )
    for is_bad, code, why in checks:
        for row in np.flatnonzero(is_bad).tolist():
            problems.setdefault(row, (code, why))


def _note_elapsed(jobs: Jobs, start_us: I8, end_us: I8, noted: _Noted) -> None:
    """Count suspended jobs, whose Elapsed is shorter than from start to end, and jobs whose Elapsed is longer."""
    over = (start_us != NO_TIME) & (end_us != NO_TIME) & (jobs.elapsed_us != NO_TIME)
    _note(noted, "suspended", over & (jobs.elapsed_us < end_us - start_us))
    _note(noted, "elapsed_too_long", over & (jobs.elapsed_us > end_us - start_us))


def _amounts(jobs: Jobs, state: I8, problems: Problems, noted: _Noted) -> F8:
    """Allocated amounts of jobs that ran, and requested amounts of pending ones (for a pending array, of all its
    tasks).
    """
    ran = (state == RUNNING) | (state == FINISHED)
    cpus_unknown = ran & np.isnan(jobs.allocated[:, CPUS])
    requested = np.where(np.isnan(jobs.requested), jobs.allocated, jobs.requested)
    amounts = np.where(ran[:, None], jobs.allocated, requested)
    amounts[cpus_unknown, CPUS] = jobs.requested[cpus_unknown, CPUS]
    _note(noted, "processors_requested", cpus_unknown & ~np.isnan(amounts[:, CPUS]))
    amounts[:, BILLING] = _billing(jobs, ran, noted)
    for row in np.flatnonzero(ran & np.isnan(amounts[:, CPUS])).tolist():
        problems.setdefault(
            row, ("no_processors", "The number of processors is not given: add AllocCPUS or AllocTRES.")
        )
    amounts = np.nan_to_num(amounts)
    many = (state == PENDING) & (jobs.n_tasks > 1)
    amounts[many] = np.minimum(amounts[many] * jobs.n_tasks[many, None], _MOST_AMOUNTS)
    _note(noted, "arrays_waiting", many)
    is_too_much = ~(amounts <= _MOST_AMOUNTS)
    for row in np.flatnonzero(is_too_much[:, CPUS]).tolist():
        why = f"More than {MOST_RATE:.0f} processors are not plausible: check AllocTRES."
        problems.setdefault(row, ("absurd_number", why))
    for column, name in _NEEDLESS.items():
        noted[f"{VALUES_IGNORED} {name}"] = is_too_much[:, column]
    return np.where(is_too_much, 0.0, amounts)


def _kinds(jobs: Jobs, state: I8) -> tuple[I8, list[Kinds]]:
    """Allocated kinds of jobs that ran, and requested ones of pending jobs (for a pending array, of all its tasks)."""
    ran = (state == RUNNING) | (state == FINISHED)
    kind = np.where(ran, jobs.allocated_kind, np.where(state == PENDING, jobs.requested_kind, 0))
    many = np.flatnonzero((state == PENDING) & (jobs.n_tasks > 1) & (kind > 0))
    kinds = list(jobs.kinds)
    for row in many.tolist():
        times = int(jobs.n_tasks[row])
        kinds.append(tuple((name, min(amount * times, MOST_OF_KIND)) for name, amount in kinds[kind[row]]))
        kind[row] = len(kinds) - 1
    return kind, kinds


def _billing(jobs: Jobs, ran: Flags, noted: _Noted) -> F8:
    """The exact billing of jobs that ran, if Slurm's record is the same truncated; else the recorded one.

    Weights that changed since a job ran, or those of another cluster, give another number than Slurm recorded.
    """
    recorded, exact = jobs.allocated[:, BILLING], jobs.exact_billing
    is_exact = ran & ~np.isnan(exact) & fits_recorded(exact, recorded)
    _note(noted, "billing_differs", ran & ~np.isnan(exact) & ~is_exact)
    is_weighed = ran & (recorded != jobs.allocated[:, CPUS]) & ~np.isnan(recorded)
    partition = np.array([job_class.partition for job_class in jobs.job_classes] or [""])[jobs.job_class]
    is_cut = ran & np.isnan(exact) & np.isin(partition, partition[is_weighed]) & (recorded == np.floor(recorded))
    _note(noted, "billing_whole", is_cut)
    return np.where(is_exact, exact, np.where(ran, recorded, jobs.requested[:, BILLING]))


def _note(noted: _Noted, name: str, flags: Flags) -> None:
    noted[name] = flags
