"""Small Grid Engine cases for the tests, and how printed numbers compare with ours."""

from __future__ import annotations

import math
from typing import Any

from apps.contrib.jobs.algorithms.gridengine import solve

PRINTED = {"prior": 6e-6, "nurg": 6e-6, "npprior": 6e-6, "ntckts": 6e-6, "share": 6e-6}  # five decimals
ROUNDED = 0.5 + 1e-6  # integers
TRUNCATED = ("tckts", "otckt", "ftckt", "stckt")
FUNCTIONAL = {
    "weight_tickets_functional": 1000,
    "weight_user": 1,
    "weight_project": 0,
    "weight_department": 0,
    "weight_job": 0,
}
SHARE_TREE = {"weight_tickets_share": 1000, "halftime": 0, "compensation_factor": 0}


def differences(expected: dict[str, Any], found: dict[str, Any], tolerance: dict[str, Any]) -> list[str]:
    """Fields of a printed row that ours doesn't round, or truncate, to."""
    return [
        f"{name}: printed {expected[name]}, ours {found[name]}"
        for name in expected
        if name in found and not _agrees(name, expected[name], found[name], tolerance.get(name))
    ]


def _agrees(name: str, printed: float, ours: float, tolerance: float | None) -> bool:
    if name in TRUNCATED:  # 499999 may mean 500000 less one ulp
        return math.floor(ours * (1 + 1e-12) + 1e-9) == printed or math.floor(ours * (1 - 1e-12) - 1e-9) == printed
    return abs(ours - printed) <= (tolerance or PRINTED.get(name, ROUNDED))


def job(number: int, **more: Any) -> dict[str, Any]:
    return {"id": str(number), "submitted_s_ago": 1000 - number, **more}


def solved(*jobs: dict[str, Any], config: dict[str, Any] | None = None, **case: Any) -> dict[str, Any]:
    """Rows by job, of pending jobs without waiting time unless the case says otherwise."""
    settings = {"weight_waiting_time": 0, **(config or {})}
    return dict(solve({"config": settings, "jobs": list(jobs), **case})["jobs"])


def column(rows: dict[str, Any], name: str) -> list[float]:
    return [row[name] for row in rows.values()]
