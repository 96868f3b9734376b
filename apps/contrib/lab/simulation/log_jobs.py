"""Read a log in Standard Workload Format as the jobs of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.engine.arrays import FloatArray, IntArray
from apps.engine.case_fields import refuse_repeated
from apps.engine.case_text import finite, shown
from apps.engine.cases import Policy
from apps.engine.errors import BadCase

SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_S, USER, GROUP = 1, 3, 4, 7, 8, 11, 12
MOST_LOG_LINES = 5_000_000


@dataclass(frozen=True, eq=False)
class Trace:
    """The usable jobs of a log; seconds since its first submission.

    requested_s: −1 if the log has none. unmapped: jobs without a matching rule. idle: jobs without run time or
    processors. site: where each was submitted, −1 for any site that is wide enough; None: for all. rate: usage per
    second; None: processors.
    """

    name: str
    at_s: FloatArray
    run_s: FloatArray
    requested_s: FloatArray
    cpus: IntArray
    entry: IntArray
    unmapped: int = 0
    idle: int = 0
    site: IntArray | None = None
    rate: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.at_s)


@dataclass(frozen=True)
class _Rule:
    """A mapping rule: user and group it applies to (None: all), and a path in which {user} and {group} are replaced."""

    user: str | None
    group: str | None
    path: str

    def fits(self, user: str, group: str) -> bool:
        return self.user in (None, user) and self.group in (None, group)


def read_trace(line: Mapping[str, Any], place: str, policy: Policy, traces: Mapping[str, str]) -> Trace:
    """The log that a workload line names, mapped by its `map` (a list of rules), otherwise by its `entry`."""
    name = line.get("trace")
    if not isinstance(name, str) or not name:
        raise BadCase(f"{shown(name)} can't be used; the name of a file is allowed", place=f"{place}.trace")
    text = traces.get(name)
    if text is None:
        raise BadCase(f"the file {shown(name)} is not at hand", place=f"{place}.trace")
    rules = _read_rules(line, place, policy)
    rows = _rows(text, f"{place}.trace")
    return _mapped(name, rows, rules, policy)


def _read_rules(line: Mapping[str, Any], place: str, policy: Policy) -> list[_Rule]:
    rules = line.get("map")
    where = f"{place}.map"
    if rules is None:
        rules, where = [{"entry": line.get("entry")}], place
    if not isinstance(rules, list) or not rules:
        raise BadCase(
            'must be a list of rules such as {"user": 4, "entry": "/vo/{user}"}; the first that fits counts',
            place=where,
        )
    return [_read_rule(rule, where if "map" not in line else f"{where}[{i}]", policy) for i, rule in enumerate(rules)]


def _read_rule(rule: object, place: str, policy: Policy) -> _Rule:
    if not isinstance(rule, dict):
        raise BadCase(f"{shown(rule)} can't be used; an object with entry is allowed", place=place)
    refuse_repeated(rule, place)
    path = rule.get("entry")
    if not isinstance(path, str) or not path.startswith("/"):
        what = "is missing" if path is None else f"{shown(path)} can't be used"
        raise BadCase(
            f"{what}; a path is allowed, in which {{user}} and {{group}} stand for them", place=f"{place}.entry"
        )
    if "{user}" not in path and "{group}" not in path and path not in policy.entry_at:
        raise BadCase(f"{shown(path)} is not in the policy", place=f"{place}.entry")
    return _Rule(_read_number_of(rule, "user", place), _read_number_of(rule, "group", place), path)


def _read_number_of(rule: Mapping[str, Any], name: str, place: str) -> str | None:
    value = rule.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    number = finite(value)
    if number is None or not number.is_integer():
        raise BadCase(f"{shown(value)} can't be used; a number from the log is allowed", place=f"{place}.{name}")
    return str(int(number))


def _rows(text: str, place: str) -> FloatArray:
    """The used fields, one row a job: submit, run, processors, requested time, user, group."""
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        fields = line.split()
        try:
            submit, run, allocated, requested, requested_s, user, group = (
                float(fields[i]) for i in (SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_S, USER, GROUP)
            )
        except (ValueError, IndexError):
            raise BadCase(f"line {number} is no job in Standard Workload Format", place=place) from None
        rows.append((submit, run, allocated if allocated > 0 else requested, requested_s, user, group))
        if len(rows) > MOST_LOG_LINES:
            raise BadCase(f"more than {MOST_LOG_LINES:,} jobs", place=place)
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 6)
    if not np.isfinite(table).all() or np.abs(table).max(initial=0.0) > 2.0**53:
        raise BadCase("has a number that isn't finite, or is beyond 2^53", place=place)
    return table


def _mapped(name: str, rows: FloatArray, rules: list[_Rule], policy: Policy) -> Trace:
    is_run = (rows[:, 1] > 0) & (rows[:, 2] >= 1)
    first_s = float(rows[:, 0].min(initial=np.inf))
    jobs = rows[is_run]
    pairs, pair_of_job = np.unique(jobs[:, 4:6], axis=0, return_inverse=True)
    entry_of_pair = [_entry_of(str(int(user)), str(int(group)), rules, policy) for user, group in pairs.tolist()]
    entry = np.array(entry_of_pair, dtype=np.int64)[pair_of_job.reshape(-1)] if len(jobs) else np.zeros(0, np.int64)
    jobs, kept = jobs[entry >= 0], entry[entry >= 0]
    order = np.argsort(jobs[:, 0], kind="stable")
    jobs = jobs[order]
    return Trace(
        name=name,
        at_s=jobs[:, 0] - first_s,
        run_s=jobs[:, 1].copy(),
        requested_s=np.where(jobs[:, 3] > 0, jobs[:, 3], -1.0),
        cpus=jobs[:, 2].astype(np.int64),
        entry=kept[order],
        unmapped=int((entry < 0).sum()),
        idle=int((~is_run).sum()),
    )


def _entry_of(user: str, group: str, rules: list[_Rule], policy: Policy) -> int:
    """The entry by the first matching rule; −1 if none matches, or if the entry is not in the policy."""
    for rule in rules:
        if rule.fits(user, group):
            path = rule.path.replace("{user}", user).replace("{group}", group)
            entry = policy.entry_at.get(path, -1)
            return -1 if entry < 0 or policy.tree.is_reserve[entry] else entry
    return -1
