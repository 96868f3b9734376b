"""Times of the parts of resized jobs.

A resize ends a row (state RESIZING) and begins another, whose Submit and Eligible are the instant of the resize. Its
Start is that instant too, or the first start of the job: then Elapsed covers the whole job. Source:
plugins/accounting_storage/mysql/as_mysql_job.c (job_start).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from apps.usage.parsers.base import I8, NO_TIME, Flags

_NEVER = np.iinfo(np.int64).max
Keys = Sequence[tuple[bytes, ...]]


def begin_of_rows(submit_us: I8, eligible_us: I8, start_us: I8, end_us: I8) -> I8:
    """When each row's own part began, by the row alone: a job that starts before its submission was resized then.

    Eligible replaces a missing Submit. Where the end is before both, Start counts.
    """
    since_us = np.where(submit_us != NO_TIME, submit_us, eligible_us)
    last_us = np.where(end_us != NO_TIME, end_us, _NEVER)
    is_resized = (start_us != NO_TIME) & (since_us > start_us) & (since_us <= last_us)
    return np.where(is_resized, since_us, start_us)


def follow_parts(keys: Keys, is_part: Flags, eligible_us: I8, begin_us: I8, end_us: I8) -> I8:
    """Let no row begin before an earlier part of the same job ended, nor before it became eligible after that part.

    keys: cluster, job and array task of each row, in any order. is_part: rows of parts that ended by a resize. In
    joined files, a row may show while it ran what another shows ended, by an equal Eligible: it begins where it does.
    """
    has_ended = np.flatnonzero((end_us != NO_TIME) & (eligible_us != NO_TIME)).tolist()
    ended = {(keys[row], int(eligible_us[row])) for row in has_ended}
    ends: dict[tuple[bytes, ...], list[int]] = {}
    for row in np.flatnonzero(is_part).tolist():
        ends.setdefault(keys[row], []).append(int(end_us[row]))
    for known in ends.values():
        known.sort()
    begin_us = begin_us.copy()
    for row, key in enumerate(keys):
        if key not in ends or begin_us[row] == NO_TIME:
            continue
        if end_us[row] == NO_TIME and (key, int(eligible_us[row])) in ended:
            continue
        last_us = int(end_us[row]) if end_us[row] != NO_TIME else int(_NEVER)
        n_before = bisect_left(ends[key], last_us)
        if n_before:
            since_us = max(ends[key][n_before - 1], int(eligible_us[row]))
            begin_us[row] = max(int(begin_us[row]), min(since_us, last_us))
    return begin_us


def first_starts(keys: Keys, is_part: Flags, start_us: I8, begin_us: I8, end_us: I8) -> I8:
    """Start of the run that each row is a part of: that of the part which ended where it begins, else its own Start."""
    first_us = np.minimum(start_us, begin_us)
    parts = np.flatnonzero(is_part)
    known: dict[tuple[object, ...], int] = {}
    for row in [*parts[np.argsort(end_us[parts], kind="stable")].tolist(), *np.flatnonzero(~is_part).tolist()]:
        first_us[row] = min(int(first_us[row]), known.get((keys[row], int(begin_us[row])), int(first_us[row])))
        if is_part[row]:
            known[keys[row], int(end_us[row])] = int(first_us[row])
    return first_us
