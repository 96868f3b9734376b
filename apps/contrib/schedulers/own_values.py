"""Shares and usage that the scheduler itself reports: validate the agent's rows, and store and load them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from apps.contrib.schedulers.models import Scheduler, SchedulerValues
from apps.core.blobs import pack, unpack
from apps.core.errors import FieldProblem, Malformed

MOST_OWN_VALUES = 500_000
_TEXTS = ("cluster", "group", "user", "parent")
_NUMBERS = ("norm_shares", "raw_usage", "effective_usage", "fairshare", "level_fs")
PARENT = -1.0  # raw shares of a user who competes one level higher (Slurm's "parent")


@dataclass(frozen=True, slots=True)
class OwnValue:
    """A row of the scheduler's report, for a user, or a group (user is "").

    Numbers are NaN if not given, and may be infinite. parent: the parent of a group; empty for the root, and if the
    agent doesn't know it.
    """

    cluster: str
    group: str
    user: str
    parent: str
    raw_shares: float  # PARENT
    norm_shares: float
    raw_usage: float
    effective_usage: float
    fairshare: float
    level_fs: float


def read_values(rows: Any) -> list[OwnValue]:
    """Validate the rows of an agent's report.

    Raises:
        Malformed: the first invalid field.
    """
    if not isinstance(rows, list) or len(rows) > MOST_OWN_VALUES:
        raise _wrong("values", f"must be a list of at most {MOST_OWN_VALUES:,} rows")
    return [_read(row, f"values[{i}]") for i, row in enumerate(rows)]


def _read(row: Any, where: str) -> OwnValue:
    known = {*_TEXTS, *_NUMBERS, "raw_shares"}
    if not isinstance(row, dict) or not known.issuperset(row):
        raise _wrong(where, f"must be an object with: {', '.join(sorted(known))}")
    texts: dict[str, Any] = {name: "" if row.get(name) is None else row[name] for name in _TEXTS}
    for name, text in texts.items():
        if type(text) is not str or len(text) > 256:
            raise _wrong(f"{where}.{name}", "must be text of at most 256 characters")
    shares = row.get("raw_shares")
    raw_shares = PARENT if shares == "parent" else _number(shares, f"{where}.raw_shares")
    numbers: dict[str, Any] = {name: _number(row.get(name), f"{where}.{name}") for name in _NUMBERS}
    return OwnValue(**texts, raw_shares=raw_shares, **numbers)


def _number(value: Any, where: str) -> float:
    if value is None:
        return math.nan
    if value in ("Infinity", "-Infinity"):
        return float(value)
    if type(value) not in (int, float):
        raise _wrong(where, 'must be a number, "Infinity" or null')
    return float(value)


def _wrong(where: str, message: str) -> Malformed:
    return Malformed(f"{where} {message}.", fields=[FieldProblem(where, message)])


def pack_values(values: list[OwnValue]) -> tuple[bytes, str]:
    columns: dict[str, Any] = {name: [getattr(value, name) for value in values] for name in _TEXTS}
    for name in ("raw_shares", *_NUMBERS):
        columns[name] = np.array([getattr(value, name) for value in values], np.float64)
    return pack(columns)


def store_values(scheduler: Scheduler, values: list[OwnValue], taken_at: datetime) -> None:
    """Replace the stored values, in the caller's transaction."""
    data, digest = pack_values(values)
    rows = {"taken_at": taken_at, "n_rows": len(values), "data": data, "digest": digest}
    SchedulerValues.objects.update_or_create(scheduler=scheduler, defaults=rows)


def load_values(scheduler_id: int) -> list[OwnValue]:
    """The latest stored values; empty if there are none."""
    stored = SchedulerValues.objects.filter(scheduler_id=scheduler_id).first()
    if stored is None:
        return []
    columns, _meta = unpack(stored.data, stored.digest)
    names = (*_TEXTS, "raw_shares", *_NUMBERS)
    columns.setdefault("parent", [""] * len(columns["group"]))  # older agents don't send it
    lists = [columns[name] if name in _TEXTS else columns[name].tolist() for name in names]
    return [OwnValue(*row) for row in zip(*lists, strict=True)]
