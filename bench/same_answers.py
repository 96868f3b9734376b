"""Whether two answers to one question are about the same thing: the same users, with equal numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from typing import Any

Numbers = Mapping[str, tuple[float, ...]]  # by user, or by job
PRINTED = 1e-6  # digits that sshare prints; usage is in whole seconds


def differences(kind: str, slurm: str, ours: str, *, is_cut: bool) -> list[str]:
    """Users or jobs that one side leaves out, or whose numbers differ: a sentence with some; none if all are equal.

    is_cut: slurm is the beginning of an answer, which may be empty.
    """
    read_slurm, read_ours = _READERS[kind]
    expected, answered = read_slurm(slurm), read_ours(ours)
    missing = expected.keys() - answered.keys() if is_cut else expected.keys() ^ answered.keys()
    different = [name for name in expected.keys() & answered.keys() if not _are_equal(expected[name], answered[name])]
    if not (missing or different) and (expected or is_cut):
        return []
    some = [f"{name}: {expected.get(name)} and {answered.get(name)}" for name in [*sorted(missing), *different][:5]]
    return [f"{kind}: {len(missing)} on one side, {len(different)} of {len(expected)} differ: {some}"]


def _are_equal(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= max(PRINTED, 1e-12 * abs(b)) for a, b in zip(one, other, strict=True))


def n_rows(text: str) -> int:
    """Rows of a table with a header, lines of NDJSON, or results of a JSON document."""
    if text.startswith('{"account"'):
        return len(text.splitlines())
    if text.startswith("{"):
        document = json.loads(text)
        return len(document.get("results", "1"))
    lines = text.splitlines()
    if any("|" in line for line in lines):
        return len(_table(text))
    return max(len(lines) - 1, 0)


def _table(text: str) -> list[dict[str, str]]:
    """Rows of a command with `-P`; a last line that was cut is left out."""
    whole = text[: text.rfind("\n") + 1]
    header, *rows = [line.split("|") for line in whole.splitlines() if "|" in line] or [[""]]
    return [dict(zip(header, row, strict=True)) for row in rows]


def _columns(*names: str, user: str = "User") -> Callable[[str], Numbers]:
    return lambda text: {row[user]: tuple(float(row[name]) for name in names) for row in _table(text) if row[user]}


def _of_tree(text: str) -> Numbers:
    rows = csv.DictReader(text.splitlines())
    names = ("shares", "usage_core_s", "factor")
    return {row["name"]: tuple(float(row[name]) for name in names) for row in rows if row["kind"] == "user"}


def _of_lines(text: str) -> Numbers:
    leaves = map(json.loads, text.splitlines())
    return {_name(leaf["entry"]): (leaf["factor"],) for leaf in leaves}


def _of_results(text: str) -> Numbers:
    return {each["account"]: (each["factor"],) for each in json.loads(text)["results"]}


def _of_buckets(text: str) -> Numbers:
    sums: dict[str, float] = {}
    for row in csv.DictReader(text.splitlines()):
        sums[row["user"]] = sums.get(row["user"], 0.0) + float(row["cpu_s"])
    return {user: (core_s,) for user, core_s in sums.items()}


def _of_allocations(text: str) -> Numbers:
    delivered = {_name(each["path"]): 3_600 * each["delivered"] for each in json.loads(text)["results"]}
    return {user: (round(core_s),) for user, core_s in delivered.items() if core_s}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _of_sprio(text: str) -> Numbers:
    lines = text.splitlines()
    cells = dict(zip(lines[0].split(), lines[1].split(), strict=False))
    return {cells["JOBID"]: (float(cells["PRIORITY"]),)}


def _of_why(text: str) -> Numbers:
    job: dict[str, Any] = json.loads(text)["job"]
    return {job["job"]: (job["priority"],)}


_USED = _columns("Used", user="Login")
_READERS: dict[str, tuple[Callable[[str], Numbers], Callable[[str], Numbers]]] = {
    "tree": (_columns("RawShares", "RawUsage", "FairShare"), _of_tree),
    "factors": (_columns("FairShare"), _of_lines),
    "looked up": (_columns("FairShare"), _of_results),
    "buckets": (_USED, _of_buckets),
    "table": (_USED, _of_allocations),
    "why": (_of_sprio, _of_why),
}
