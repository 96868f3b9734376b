"""Convert text columns of sacct to jobs, parsing each distinct text once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from apps.core.resource_kinds import ENERGY, KindColumn, checked_amount, make_kinds
from apps.usage.parsers.base import (
    F8,
    I8,
    MOST_RATE,
    NO_TIME,
    AccountNames,
    Bytes,
    Flags,
    JobClassKey,
    Reading,
    excerpt,
    narrow_column,
)
from apps.usage.parsers.field_values import note_ignored
from apps.usage.parsers.sacct_rows import Texts
from apps.usage.parsers.sluids import sluids_of
from apps.usage.parsers.slurm_billing import BillingWeights
from apps.usage.parsers.slurm_jobs import CPUS, GPUS, NODES, Jobs
from apps.usage.parsers.slurm_states import BY_TIMES, ENDED, NEVER_RAN, PART, RUNNING_NOW, WAITING, accounted_meaning
from apps.usage.parsers.slurm_values import (
    NOWHEN,
    Problems,
    Times,
    Tres,
    count_tasks,
    is_no_name,
    list_gres,
    list_tres,
    no_times,
    read_amount,
    read_duration_s,
    read_limit_s,
    read_times,
    read_tres,
    sum_tres,
    tres_kinds,
)

LONGEST_COLUMN_NAME = 256
MOST_JOB = 128
_MOST_COLUMN_DIGITS = 18
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_JOB = re.compile(rb"\d{1,18}(?:\+\d{1,9})?")
_TASK = re.compile(rb"(\d{1,18})_(\d{1,18}|\[[\w,:%.-]{1,60}\])")
_T = TypeVar("_T")
_Ignored = defaultdict[str, set[int]]  # column → rows whose value is ignored
_NO_DURATION = NOWHEN - {b"0"} | {b"INVALID"}
_ENERGY_COLUMN = "ConsumedEnergyRaw"
_NO_ENERGY = frozenset((b"", b"0", b"18446744073709551614", b"18446744073709551615"))


def as_jobs(texts: Texts, lines: I8, reading: Reading, problems: Problems, notes: dict[str, int]) -> Jobs:
    """Convert columns to jobs. Unreadable values that usage or keys depend on are added to `problems` by row; others
    count as missing, and are noted by column. Unknown states are noted, and derived from times.
    """
    n, zone = len(lines), reading.zone
    ignored: _Ignored = defaultdict(set)
    job, array_task = _ids(texts, n, problems)
    people, who, is_nameless = _people(texts, n, problems)
    job_classes, job_class = _job_classes(texts, n, ignored)
    meaning = _meanings(texts, notes)
    ran = (meaning != WAITING) & (meaning != NEVER_RAN)
    start = _times("Start", texts, n, zone, ran, problems, ignored)
    end = _times("End", texts, n, zone, ran & (meaning != RUNNING_NOW), problems, ignored)
    needs_elapsed = ran & (meaning != RUNNING_NOW) & (end.first_us == NO_TIME)
    kinds = KindColumn()
    amounts, has_no_allocation = _resources(texts, n, ran, kinds, problems, ignored)
    jobs = Jobs(
        line=lines,
        job=job,
        array_task=array_task,
        cluster=_names("Cluster", texts, n, MOST_JOB, problems),
        meaning=meaning,
        who=who,
        job_class=job_class,
        submit=_times("Submit", texts, n, zone, np.ones(n, np.bool_), problems, ignored),
        eligible=_times("Eligible", texts, n, zone, np.zeros(n, np.bool_), problems, ignored),
        start=start,
        end=end,
        elapsed_us=_elapsed(texts, n, needs_elapsed, problems, ignored),
        requested=amounts.requested,
        allocated=amounts.allocated,
        requested_kind=amounts.requested_kind,
        allocated_kind=_with_energy(texts, amounts.allocated_kind, kinds, ignored),
        exact_billing=_exact_billing(texts, n, reading.billing),
        has_no_allocation=has_no_allocation,
        requested_s=_limits(texts, n, ignored),
        n_tasks=_tasks(texts, n),
        people=people,
        job_classes=job_classes,
        kinds=kinds.distinct,
        is_nameless=is_nameless,
        original_sluid=_sluids("OriginalSLUID", texts, n),
        row_sluid=_sluids("SLUID", texts, n),
        are_live=False,
    )
    for name, rows in ignored.items():
        if n_ignored := len(rows - problems.keys()):
            note_ignored(notes, name, n_ignored)
    return jobs


def _sort_out(name: str, column_problems: Problems, needed: Flags, problems: Problems, ignored: _Ignored) -> None:
    """Problems of a column belong to the rows that need it; in others the value is ignored."""
    for row, problem in column_problems.items():
        if needed[row]:
            problems.setdefault(row, problem)
        else:
            ignored[name].add(row)


def _times(
    name: str, texts: Texts, n: int, zone: ZoneInfo | None, needed: Flags, problems: Problems, ignored: _Ignored
) -> Times:
    if name not in texts:
        return no_times(n)
    column_problems: Problems = {}
    times = read_times(name, texts[name], zone, column_problems)
    _sort_out(name, column_problems, needed, problems, ignored)
    return times


def distinct(values: Sequence[_T]) -> tuple[list[_T], I8]:
    """The distinct values of a column, in order of first appearance, and each row's index into them."""
    if len(values) and values[0] == values[-1] and values.count(values[0]) == len(values):  # as most do in some columns
        return [values[0]], np.zeros(len(values), np.int64)
    places: defaultdict[_T, int] = defaultdict(count().__next__)
    code = np.fromiter(map(places.__getitem__, values), np.int64, len(values))
    return list(places), code


def combined(*columns: Sequence[bytes]) -> tuple[list[tuple[bytes, ...]], I8]:
    """Distinct combinations of several columns, and the index of each row's combination."""
    known, code = distinct(columns[0])
    combinations: list[tuple[bytes, ...]] = [(text,) for text in known]
    for column in columns[1:]:
        more, place = distinct(column)
        pairs, code = np.unique(code * len(more) + place, return_inverse=True)
        combinations = [(*combinations[pair // len(more)], more[pair % len(more)]) for pair in pairs.tolist()]
    return combinations, code.reshape(-1)


def read_distinct(
    name: str, values: Sequence[bytes], read: Callable[[str], float], remedy: str, problems: Problems
) -> F8:
    """Parse a column to numbers, each distinct text once."""
    known, code = distinct(values)
    numbers = np.full(len(known), np.nan)
    for place, text in enumerate(known):
        try:
            numbers[place] = read(text.decode("ascii"))
        except (ValueError, OverflowError):
            _report_rows(code == place, f"bad_{name.lower()}", f"{name} is {excerpt(text)!r}{remedy}", problems)
    return numbers[code]


def _report_rows(flags: Flags, code: str, why: str, problems: Problems) -> None:
    for row in np.flatnonzero(flags).tolist():
        problems.setdefault(row, (code, why))


def _ids(texts: Texts, n: int, problems: Problems) -> tuple[Bytes, Bytes]:
    """Job ids and array tasks. sacct, squeue and the REST daemon agree on a job's own number (JobIDRaw), which array
    tasks have too.

    If only JobID is present, the ids are the array's number and the task's.
    """
    if "JobIDRaw" in texts:
        raw = texts["JobIDRaw"]
        column: Bytes = narrow_column(raw or [b""], MOST_JOB)[:n]
        for row in np.flatnonzero(~_are_digits(column, _MOST_COLUMN_DIGITS)).tolist():
            if not _JOB.fullmatch(raw[row]):
                problems.setdefault(row, _no_job(raw[row]))
        return column, np.zeros(n, "S1")
    jobs, tasks = [], []
    for row, text in enumerate(texts["JobID"]):
        match = _TASK.fullmatch(text)
        if match is None and not _JOB.fullmatch(text):
            problems.setdefault(row, _no_job(text))
        jobs.append(match[1] if match else text[:MOST_JOB])
        tasks.append(match[2] if match and not match[2].startswith(b"[") else b"")
    return np.array(jobs or [b""])[:n], np.array(tasks or [b""])[:n]


def _are_digits(column: Bytes, most: int) -> Flags:
    """Which texts are 1 to `most` digits."""
    letters = column.view(np.uint8).reshape(len(column), -1)
    is_digit = letters - np.uint8(ord("0")) < 10
    is_short = (letters[:, most:] == 0).all(axis=1)
    are_digits: Flags = is_digit[:, 0] & is_short & (is_digit | (letters == 0)).all(axis=1)
    return are_digits


def _no_job(text: bytes) -> tuple[str, str]:
    return (
        "bad_job",
        f"{excerpt(text)!r} is not a job number: the row is damaged, or has other columns than the header's.",
    )


def _people(texts: Texts, n: int, problems: Problems) -> tuple[list[AccountNames], I8, Flags]:
    """Distinct names, each row's index into them, and which rows give a number or `nobody` for the user's name."""
    nothing = [b""] * n
    users, uids = texts.get("User", nothing), texts.get("UID", nothing)
    known, code = combined(users, texts.get("Account", nothing), uids)
    people, is_nameless = [], []
    for place, (user_name, account, uid) in enumerate(known):
        user = user_name or uid
        try:
            who = AccountNames(name_of("User", user), name_of("Account", account))
        except ValueError as error:
            _report_rows(code == place, "bad_text", str(error), problems)
            who = AccountNames("")
        if not who.user:
            why = "Neither User nor UID is given: add both to --format (a deleted user still has a UID)."
            _report_rows(code == place, "no_user", why, problems)
        people.append(who)
        is_nameless.append(is_no_name(who.user, uid.decode("ascii", "replace")))
    names, code_of = distinct(people)
    return names, code_of[code], np.array(is_nameless, np.bool_)[code]


def _job_classes(texts: Texts, n: int, ignored: _Ignored) -> tuple[list[JobClassKey], I8]:
    """Job classes, without names that can't be stored. A reservation is the queue: metrics can weight jobs in it."""
    nothing = [b""] * n
    known, code = combined(*(texts.get(name, nothing) for name in ("Reservation", "Partition", "QOS")))
    classes = []
    for place, names in enumerate(known):
        read = []
        for column, text in zip(("Reservation", "Partition", "QOS"), names, strict=True):
            try:
                read.append(name_of(column, text, MOST_JOB))
            except ValueError:
                read.append("")
                ignored[column].update(np.flatnonzero(code == place).tolist())
        classes.append(JobClassKey(*read))
    return classes, code


@lru_cache(maxsize=65_536)
def name_of(column: str, text: bytes | str, most: int = LONGEST_COLUMN_NAME) -> str:
    """Decode and validate a name.

    Raises:
        ValueError: it is not a valid name, with the reason.
    """
    try:
        name = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise ValueError(f"{column} ({excerpt(text)}) is not UTF-8 at byte {error.start + 1}.") from error
    if len(name) > most:
        raise ValueError(f"{column} ({excerpt(name)}) has more than {most} characters.")
    if _CONTROL.search(name):
        raise ValueError(f"{column} ({excerpt(name)}) contains a control character.")
    return name


def _names(column: str, texts: Texts, n: int, most: int, problems: Problems) -> Bytes:
    if column not in texts or not n:
        return np.zeros(n, "S1")
    known, code = distinct(texts[column])
    for place, text in enumerate(known):
        try:
            name_of(column, text, most)
        except ValueError as error:
            _report_rows(code == place, "bad_text", str(error), problems)
            known[place] = b""
    return np.array(known, dtype=np.bytes_)[code]


def _meanings(texts: Texts, notes: dict[str, int]) -> I8:
    known, code = distinct(texts["State"])
    meanings = [accounted_meaning(state.decode("ascii", "replace")) for state in known]
    is_unknown = np.array([meaning is None for meaning in meanings], np.bool_)
    n_unknown = int(is_unknown[code].sum()) if len(code) else 0
    if n_unknown:
        notes["state_unknown"] = notes.get("state_unknown", 0) + n_unknown
    meaning = np.array([BY_TIMES if meaning is None else meaning for meaning in meanings], np.int64)[code]
    return meaning if "End" in texts else np.where(meaning == PART, ENDED, meaning)


def _elapsed(texts: Texts, n: int, needed: Flags, problems: Problems, ignored: _Ignored) -> I8:
    name = "ElapsedRaw" if "ElapsedRaw" in texts else "Elapsed"
    if name not in texts:
        return np.full(n, NO_TIME, np.int64)
    remedy = ": it is a duration like 1-02:03:04, or seconds."
    seconds = whole_numbers(texts[name])
    if seconds is None:
        column_problems: Problems = {}
        seconds = read_distinct(name, texts[name], _duration_or_nan, remedy, column_problems)
        _sort_out(name, column_problems, needed, problems, ignored)
    return np.where(np.isnan(seconds), NO_TIME, np.nan_to_num(seconds) * 1e6).astype(np.int64)


def whole_numbers(texts: Sequence[bytes]) -> F8 | None:
    """All texts as numbers, if all are whole numbers; else None."""
    if max(map(len, texts), default=0) > 12 or not all(map(bytes.isdigit, texts)):
        return None
    return np.array(texts, dtype=np.bytes_).astype(np.int64).astype(np.float64)


def _duration_or_nan(text: str) -> float:
    return np.nan if text.encode() in _NO_DURATION else read_duration_s(text)


def _limits(texts: Texts, n: int, ignored: _Ignored) -> F8:
    for name, read in (("TimelimitRaw", _minutes), ("Timelimit", read_limit_s)):
        if name in texts:
            remedy = ": it is a time limit like 2-00:00:00, or UNLIMITED."
            column_problems: Problems = {}
            limits = read_distinct(name, texts[name], read, remedy, column_problems)
            if column_problems:
                ignored[name].update(column_problems)
            return np.where(limits > 0, limits, np.nan)
    return np.full(n, np.nan)


def _minutes(text: str) -> float:
    return 60.0 * read_duration_s(text) if text.isdigit() else read_limit_s(text)


class _Amounts(NamedTuple):
    """Resources of each row as columns of Jobs, and the place of its kinds."""

    allocated: F8
    requested: F8
    allocated_kind: I8
    requested_kind: I8


def _resources(
    texts: Texts, n: int, ran: Flags, kinds: KindColumn, problems: Problems, ignored: _Ignored
) -> tuple[_Amounts, Flags]:
    """Allocated and requested resources: from TRES, else from the plain counts; and which rows have no allocation."""
    nowhere = np.zeros(n, np.bool_)
    bad_tres: Problems = {}
    allocated, allocated_kind = _tres("AllocTRES", texts, n, kinds, bad_tres, ignored)
    has_no_allocation = np.isnan(allocated[:, NODES]) & ("AllocTRES" in texts)
    if "AllocGRES" in texts:
        allocated_kind = _with_gres(texts["AllocGRES"], allocated, allocated_kind, kinds)
    bad_request: Problems = {}
    requested, requested_kind = _tres("ReqTRES", texts, n, kinds, bad_request, ignored)
    _sort_out("ReqTRES", bad_request, nowhere, problems, ignored)
    for columns, into, place, is_needed in (
        (("AllocCPUS", "NCPUS"), allocated, CPUS, ran),
        (("AllocNodes",), allocated, NODES, nowhere),
        (("ReqCPUS",), requested, CPUS, nowhere),
        (("NNodes", "ReqNodes"), requested, NODES, nowhere),
    ):
        bad_counts: dict[str, Problems] = {name: {} for name in columns if name in texts}
        for name, column_problems in bad_counts.items():
            counts = read_distinct(name, texts[name], _count, ": a whole number belongs there.", column_problems)
            into[:, place] = np.where(np.isnan(into[:, place]), counts, into[:, place])
        for name, column_problems in bad_counts.items():
            _sort_out(name, column_problems, is_needed & np.isnan(into[:, place]), problems, ignored)
    _sort_out("AllocTRES", bad_tres, ran & np.isnan(allocated[:, CPUS]), problems, ignored)
    waits_for = np.where(requested_kind > 0, requested_kind, allocated_kind)
    return _Amounts(allocated, requested, allocated_kind, waits_for), has_no_allocation


def _exact_billing(texts: Texts, n: int, weights: BillingWeights) -> F8:
    """Billing by the weights of each row's partition; NaN without weights."""
    if not weights.partitions or not {"AllocTRES", "Partition"} <= texts.keys() or not n:
        return np.full(n, np.nan)
    known, code = combined(texts["Partition"], texts["AllocTRES"])
    billing = np.full(len(known), np.nan)
    for place, (partition, tres) in enumerate(known):
        with suppress(ValueError, OverflowError):  # an unreadable list is reported where its amounts are read
            billing[place] = weights.billing_of(partition.decode(), list_tres(tres.decode("ascii")))
    return billing[code]


def _tasks(texts: Texts, n: int) -> I8:
    """Number of tasks of each row, by JobID: `40_[0-3%2]` are four pending tasks."""
    ids = texts.get("JobID", ())
    if not any(b"[" in text for text in ids):
        return np.ones(n, np.int64)
    counts = [count_tasks(text.partition(b"_")[2].decode("ascii", "replace")) if b"[" in text else 1 for text in ids]
    return np.asarray(counts, np.int64)


def _sluids(name: str, texts: Texts, n: int) -> I8:
    return sluids_of(texts[name]) if name in texts else np.zeros(n, np.int64)


def _count(text: str) -> float:
    """A number, with a unit letter from 1,024 on; more than any cluster has isn't one."""
    if not text:
        return np.nan
    count = read_amount(text)
    if count > MOST_RATE:
        raise ValueError(text)
    return count


def _tres(name: str, texts: Texts, n: int, kinds: KindColumn, problems: Problems, ignored: _Ignored) -> tuple[F8, I8]:
    if name not in texts:
        return np.full((n, len(Tres())), np.nan), np.zeros(n, np.int64)
    known, code = distinct(texts[name])
    amounts, kind = np.full((len(known), len(Tres())), np.nan), np.zeros(len(known), np.int64)
    for place, text in enumerate(known):
        try:
            amounts[place], of_text, unreadable = read_tres(text.decode("ascii"))
            kind[place] = kinds.place_of(of_text)
        except (ValueError, OverflowError):
            why = f"{name} ({excerpt(text)}) is not a list like billing=2,cpu=2,mem=4000M,node=1."
            _report_rows(code == place, "bad_tres", why, problems)
        else:
            for part in unreadable:
                ignored[f"{name} {part}"].update(np.flatnonzero(code == place).tolist())
    return amounts[code], kind[code]


def _with_gres(texts: Sequence[bytes], allocated: F8, kind: I8, kinds: KindColumn) -> I8:
    """Fill in the GPUs of rows whose AllocTRES has none, as AccountingStorageTRES names none; returns their kinds."""
    known, code = distinct(texts)
    kind = kind.copy()
    for place, text in enumerate(known):
        listed = [pair for pair in list_gres(text.decode("ascii", "replace")) if pair[0].startswith("gres/gpu")]
        rows = np.flatnonzero((code == place) & np.isnan(allocated[:, GPUS])) if listed else ()
        for row in rows:
            allocated[row, GPUS] = sum_tres(listed).gpus
            kind[row] = kinds.place_of((*kinds.distinct[kind[row]], *tres_kinds(listed)[0]))
    return kind


def _with_energy(texts: Texts, kind: I8, kinds: KindColumn, ignored: _Ignored) -> I8:
    """The kinds of rows with the joules of ConsumedEnergyRaw, where AllocTRES has none."""
    if _ENERGY_COLUMN not in texts or not any(text not in _NO_ENERGY for text in texts[_ENERGY_COLUMN]):
        return kind
    kind = kind.copy()
    for row, text in enumerate(texts[_ENERGY_COLUMN]):
        known = kinds.distinct[kind[row]]
        if text in _NO_ENERGY or any(name == ENERGY for name, _amount in known):
            continue
        try:
            joules = checked_amount(ENERGY, float(int(text)))
        except ValueError:
            ignored[_ENERGY_COLUMN].add(row)
        else:
            kind[row] = kinds.place_of(make_kinds((*known, (ENERGY, joules)))[0])
    return kind
